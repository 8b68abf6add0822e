"""Recording of the changes that a function makes to a graph module, so that they are all or nothing and reversible."""

from __future__ import annotations

from collections.abc import Callable

from torch.fx import GraphModule

from fxopt.errors import RewriteError
from fxopt.recording.difference import diff_snapshots
from fxopt.recording.patch import Patch
from fxopt.recording.preserve import preserve
from fxopt.recording.snapshot import Snapshot

Transform = Callable[[GraphModule], GraphModule]


def record(
    transform: Transform, gm: GraphModule, name: str, *, copy_tensors: bool, lint_and_recompile: bool
) -> tuple[GraphModule, Patch]:
    """Return the result of `transform`, of the transformation called `name`, on `gm`, and the changes that lead there.

    Raises:
        TypeError: it returned something else than a graph module.
        RewriteError: it left a malformed graph, wrote over the numbers of a tensor, or changed a graph module inside.
            As with any other exception, the graph module is as it was.
    """
    before = Snapshot(gm, copy_tensors)
    try:
        result = _transformed(transform, before, name, lint_and_recompile)
        patch = diff_snapshots(before, Snapshot(result, with_tensors=False))
        if lint_and_recompile:
            result.recompile()
    except BaseException as error:
        before.restore()
        error.add_note(_note(before.lost))
        raise
    if result is not gm and result.graph is not before.graph.graph:
        before.restore()
    return result, patch


def _transformed(transform: Transform, before: Snapshot, name: str, lint: bool) -> GraphModule:
    given: object = transform(before.gm)
    if not isinstance(given, GraphModule):
        raise TypeError(
            f"{name}.transform returned {'None' if given is None else f'a {type(given).__name__}'}; it must return the "
            "torch.fx.GraphModule, changed in place or a new one"
        )
    inside = before.changed_graph_inside()
    if inside:
        raise RewriteError(
            f"{name} changed the graph of {inside}, a graph module inside this one, which cannot be undone from here; "
            "call the transformation with that graph module itself"
        )
    written = preserve(before, given)
    if written:
        raise RewriteError(
            f"{name} wrote over the numbers of {', '.join(written)} in place (mul_, copy_, .data or the like), which "
            "cannot be undone. Let it give the module a new tensor instead (module.weight = nn.Parameter(...)), or set "
            f"{name}.copy_tensors = True: then all parameters and buffers are copied first"
        )
    if lint:
        try:
            given.graph.lint()
        except (RuntimeError, ValueError) as error:
            raise RewriteError(f"{name} left a malformed graph: {error}") from error
    return given


def _note(lost: list[str]) -> str:
    if lost:
        return f"The graph module is as it was, except for the numbers in {', '.join(lost)}, which were written over."
    return "The graph module is as it was before the call."
