"""Error by depth: the distance of each node's value from that of its namesake in the original, in the order of runs."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pandas as pd
from torch import Tensor
from torch.fx import GraphModule

from fxopt.evidence.difference import Difference, difference
from fxopt.evidence.divergence import leaves_by_path, values_of
from fxopt.evidence.in_words import power_of_ten
from fxopt.evidence.running import leaves_of

AT_ONCE = 2**28
"""Bytes of values of the original that are kept at a time; with more, the graphs run once for each part of them."""


@dataclass(frozen=True)
class NodeError:
    """The distance of the value of one node. `rewritten` nodes may return other values by design."""

    node: str
    position: int
    """Its place in the order of the run."""
    difference: Difference
    rewritten: bool = False

    @property
    def turned(self) -> bool:
        """Is an element NaN or infinite in one of both graphs only?"""
        return self.difference.unlike > 0

    @property
    def relative(self) -> float:
        """The largest error, relative to the largest magnitude of the original's value; infinite where `turned`."""
        if self.turned:
            return math.inf
        return self.difference.max_abs / self.difference.scale if self.difference.scale else self.difference.max_abs


@dataclass(frozen=True)
class DepthReport:
    """The nodes that both graphs have, in the order of the run; `others` have no namesake, or another shape there."""

    nodes: tuple[NodeError, ...]
    others: int

    @property
    def verdict(self) -> str:
        """The course of the error in words."""
        kept = [one for one in self.nodes if not one.rewritten]
        apart = [one for one in kept if not one.difference.identical]
        told = f"{len(kept) - len(apart)} of {len(kept)} nodes that no pass rewrote return the same bits"
        if not apart:
            return told
        turned = [one for one in apart if one.turned]
        if turned:
            told += f"; NaN or infinite in one graph only at {len(turned)} of them, first at {turned[0].node}"
        finite = [one for one in apart if not one.turned]
        if not finite:
            return told
        worst = max(finite, key=lambda one: one.relative)
        begins, largest, ends = (
            f"{one.node} with {power_of_ten(one.relative)}" for one in (finite[0], worst, finite[-1])
        )
        return f"{told}; the relative error begins at {begins}, is largest at {largest}, and ends at {ends}"

    @property
    def frame(self) -> pd.DataFrame:
        """A row for each node."""
        rows = [
            (
                one.position,
                one.node,
                one.difference.identical,
                one.relative,
                math.inf if one.turned else one.difference.max_abs,
                one.rewritten,
            )
            for one in self.nodes
        ]
        columns = ["position", "node", "same bits", "relative error", "max abs error", "rewritten"]
        return pd.DataFrame(rows, columns=columns)


def error_by_depth(
    before: GraphModule,
    after: GraphModule,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    rewritten: Collection[str] = (),
    at_once: int = AT_ONCE,
) -> DepthReport:
    """Run two graphs on the same inputs, and compare the values of the nodes that both have by name.

    `rewritten` names nodes of `after` that a pass changed or made. Values of the original wait for those of `after` in
    parts of at most `at_once` bytes (or one node), each of which takes another run of both graphs.
    """
    inputs = args, kwargs or {}
    sizes = values_of(before, inputs, _bytes)
    order = [node.name for node in after.graph.nodes if node.op != "output"]
    places = {name: number for number, name in enumerate(order)}
    errors: dict[str, NodeError] = {}
    for names in _parts([name for name in order if name in sizes], sizes, at_once):
        old = values_of(before, inputs, leaves_by_path, names)
        new = values_of(after, inputs, leaves_by_path, names)
        for name in names:
            found = _apart(old[name], new[name])
            if found is not None:
                errors[name] = NodeError(name, places[name], found, name in rewritten)
    nodes = sorted(errors.values(), key=lambda one: one.position)
    return DepthReport(tuple(nodes), others=len(order) - len(errors))


def _bytes(value: Any) -> int:
    return sum(leaf.numel() * leaf.element_size() for _, leaf in leaves_of(value) if isinstance(leaf, Tensor))


def _parts(names: list[str], sizes: Mapping[str, int], most: int) -> Iterator[set[str]]:
    part: set[str] = set()
    filled = 0
    for name in names:
        if part and filled + sizes[name] > most:
            yield part
            part, filled = set(), 0
        part.add(name)
        filled += sizes[name]
    if part:
        yield part


def _apart(old: Mapping[str, Any], new: Mapping[str, Any]) -> Difference | None:
    """Return the distance over all tensors of a value; None where it has none, or they are of other shapes."""
    found = []
    for path in dict.fromkeys([*old, *new]):
        one, other = old.get(path), new.get(path)
        if isinstance(one, Tensor) and isinstance(other, Tensor):
            if one.shape != other.shape or one.dtype != other.dtype:
                return None
            found.append(difference(one, other))
        elif isinstance(one, Tensor) or isinstance(other, Tensor):
            return None
    return reduce(Difference.merged, found) if found else None
