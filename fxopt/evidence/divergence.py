"""The first divergence of two graphs: the first node whose value has other bits."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Interpreter, Node

from fxopt.evidence.output_report import OutputReport, compared
from fxopt.evidence.running import in_order, leaves_of, run


@dataclass(frozen=True)
class Divergence:
    """The first node in both graphs whose results differ, and their distance."""

    node: str
    report: OutputReport
    agreeing: int


class _Watched(Interpreter):
    """Run a graph and report the result of each node, before a later node can change it in place."""

    def __init__(
        self, gm: GraphModule, watch: Callable[[Node, Any], None], before: Callable[[Node, Mapping[Node, Any]], None]
    ) -> None:
        super().__init__(gm)
        self.watch, self.before = watch, before

    def run_node(self, n: Node) -> Any:
        self.before(n, self.env)
        result = super().run_node(n)
        self.watch(n, result)
        return result


def first_difference(
    before: GraphModule, after: GraphModule, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
) -> Divergence | None:
    """Run two graphs on the same inputs, and return the first node of `after` that differs from its namesake.

    A node that a pass rewrote may do so by design: a convolution that has taken up a batch norm returns the result of
    the batch norm. None if all namesakes return the same bits.

    Values are kept as digests, so that a large graph takes little memory for its activations; the graphs are run once
    more for the node that was found.
    """
    inputs = args, kwargs or {}
    old = values_of(before, inputs, _digest)
    new = values_of(after, inputs, _digest)
    shared = [name for name in new if name in old]
    for number, name in enumerate(shared):
        if old[name] != new[name]:
            report = _far_apart(name, *(values_of(gm, inputs, leaves_by_path, {name})[name] for gm in (before, after)))
            return Divergence(name, report, agreeing=number)
    return None


def values_of(
    gm: GraphModule, inputs: Any, keep: Callable[[Any], Any], names: Collection[str] | None = None
) -> dict[str, Any]:
    """Apply `keep` to the value of each node, or of those in `names`, before a later node changes it."""
    kept: dict[str, Any] = {}

    def watch(node: Node, value: Any) -> None:
        if node.name in names if names is not None else node.op != "output":
            kept[node.name] = keep(value)

    _run_watched(gm, inputs, watch)
    return kept


def reads_of(gm: GraphModule, inputs: Any, read: Mapping[Node, Node], keep: Callable[[Any], Any]) -> dict[Node, Any]:
    """Apply `keep` to the value of one node that another one reads, just before that one runs.

    Args:
        read: by the node that reads, the one that it reads.
    """
    kept: dict[Node, Any] = {}

    def before(node: Node, values: Mapping[Node, Any]) -> None:
        if node in read:
            kept[node] = keep(values[read[node]])

    _run_watched(gm, inputs, lambda node, value: None, before)
    return kept


def leaves_by_path(value: Any) -> dict[str, Any]:
    """Return the present leaves of a value by their paths."""
    return {path: leaf.clone() if isinstance(leaf, Tensor) else leaf for path, leaf in leaves_of(value)}


def _run_watched(
    gm: GraphModule,
    inputs: Any,
    watch: Callable[[Node, Any], None],
    before: Callable[[Node, Mapping[Node, Any]], None] = lambda node, values: None,
) -> None:
    class Run(torch.nn.Module):
        """Let `run`, which takes a module, guard the graph's buffers and the generator."""

        def __init__(self) -> None:
            super().__init__()
            self.gm = gm

        def forward(self, *args: Any, **kwargs: Any) -> None:
            _Watched(gm, watch, before).run(*in_order(gm, args, kwargs))

    run(Run(), *inputs)


def _digest(value: Any) -> tuple[Any, ...]:
    return tuple((path, _leaf_digest(leaf)) for path, leaf in leaves_of(value))


def _leaf_digest(leaf: Any) -> Any:
    if not isinstance(leaf, Tensor):
        return leaf if isinstance(leaf, bool | int | float | str | None) else type(leaf).__name__
    flat = leaf.detach().cpu().contiguous().flatten()
    data = flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
    return leaf.shape, leaf.dtype, hashlib.blake2b(data, digest_size=16).digest()


def _far_apart(name: str, old: dict[str, Any], new: dict[str, Any]) -> OutputReport:
    """Return the leaf of the node with the largest distance."""
    reports = [compared(path or name, old.get(path), new.get(path)) for path in dict.fromkeys([*old, *new])]
    return min((report for report in reports if report is not None), key=lambda report: report.closeness)
