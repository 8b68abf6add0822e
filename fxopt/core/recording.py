"""Recording what a transformation written by hand does, so that it is all or nothing and has an exact way back."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from torch.fx import GraphModule

from fxopt.core.difference import difference
from fxopt.core.edit import Patch, run
from fxopt.core.errors import FxoptWarning, RewriteError
from fxopt.core.exactness import Exactness
from fxopt.core.index import GraphIndex
from fxopt.core.ledger import CHILD, Entry, Ledger
from fxopt.core.preserve import preserve
from fxopt.core.snapshot import Snapshot

if TYPE_CHECKING:
    from fxopt.core.transformation import Transformation


def record(transformation: Transformation, gm: GraphModule, lint_and_recompile: bool) -> GraphModule:
    """Let `transformation` transform `gm`, and put what it did into the ledger of what it returns.

    Raises:
        TypeError: it returned something else than a graph module.
        RewriteError: it left a graph that is not well formed, wrote over the numbers of a tensor, or changed a graph
            module inside. As with any other exception, the graph module is as it was.
    """
    if CHILD in gm._modules:
        Ledger.of(gm)  # where it was just loaded, its nodes become what they were
    before = Snapshot.of(gm, transformation.copy_tensors)
    try:
        result = _transformed(transformation, before, lint_and_recompile)
        patch = difference(before, Snapshot.of(result, with_tensors=False))
        if lint_and_recompile:
            result.recompile()
    except BaseException as error:
        lost = before.restore()
        error.add_note(_note(lost))
        raise
    if result is not gm and result.graph is not before.graph.graph:
        before.restore()
    _enter(transformation, before, result, patch)
    return result


def record_again(transformation: Transformation, index: GraphIndex) -> bool:
    """Let `transformation` run again, in place even where it returns another graph module.

    The graph is neither linted nor recompiled.

    Returns:
        whether it changed anything. Where it fails, it did not, and an `FxoptWarning` says so.
    """
    ledger = Ledger.of(index.gm)
    count = len(ledger.entries)
    try:
        result = record(transformation, index.gm, lint_and_recompile=False)
    except Exception as error:  # noqa: BLE001 - it may be anyone's; what failed is told, and was rolled back
        name = type(transformation).__name__
        warnings.warn(f"{name} failed when it ran again: {type(error).__name__}: {error}", FxoptWarning, stacklevel=2)
        result = index.gm
    index.renew()
    if result is not index.gm:
        entries = Ledger.entries_of(result)[count:]
        run(index, difference(Snapshot.of(index.gm, with_tensors=False), Snapshot.of(result, with_tensors=False)).edits)
        ledger = Ledger.of(index.gm)
        for entry in entries:
            ledger.append(entry)
    return len(Ledger.entries_of(index.gm)) > count


def _transformed(transformation: Transformation, before: Snapshot, lint: bool) -> GraphModule:
    name = type(transformation).__name__
    given: object = transformation.transform(before.gm)
    if not isinstance(given, GraphModule):
        raise TypeError(
            f"{name}.transform returned {'None' if given is None else f'a {type(given).__name__}'}; it must return the "
            "torch.fx.GraphModule, changed in place or not"
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
            raise RewriteError(f"{name} left a graph that is not well formed: {error}") from error
    return given


def _note(lost: list[str]) -> str:
    if lost:
        return f"The graph module is as it was, except for the numbers in {', '.join(lost)}, which were written over."
    return "The graph module is as it was before the call."


def _enter(transformation: Transformation, before: Snapshot, result: GraphModule, patch: Patch) -> None:
    """Bring the ledger of `result` to the entries of before and one more."""
    known = before.modules[id(before.gm)].members("_modules").get(CHILD)
    result._modules.pop(CHILD, None)
    if isinstance(known, Ledger):
        result._modules[CHILD] = known if result is before.gm else known.shared_copy(result)
    ledger = Ledger.of(result)
    if patch.edits:
        ledger.append(entry_of(transformation, ledger, patch))
    ledger.close()


def entry_of(transformation: Transformation, ledger: Ledger, patch: Patch) -> Entry:
    """What stands in the ledger for one call of a transformation."""
    signature = transformation.signature
    number = 1 + sum(entry.signature == signature for entry in ledger.entries)
    exactness = Exactness.ROUNDING if transformation.preserves_computation else Exactness.CHANGES
    return Entry(transformation, signature, f"call {number}", exactness, patch)
