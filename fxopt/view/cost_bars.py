"""Costs of boxes, for bars in a picture, and the boxes along a path."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from itertools import groupby

from fxopt.view.visible import VisibleGraph


def bars(
    parts: Mapping[str, frozenset[tuple[Hashable, int]]], graph: VisibleGraph, told: Callable[[int], str]
) -> dict[int, tuple[float, str]]:
    """Return, for each box of `graph` that costs something, its share of the dearest box, and its cost as `told`.

    `parts` has, by the name of the node, pairs of an identity and an amount. A box counts once the parts that its nodes
    share; so the boxes of a folded picture add up to the whole at most, apart from parts that different boxes share.
    """
    sets: dict[int, set[tuple[Hashable, int]]] = {}
    for name, of_node in parts.items():
        index = graph.find(name)
        if index is not None:
            sets.setdefault(index, set()).update(of_node)
    amounts = {index: sum(amount for _, amount in of_box) for index, of_box in sets.items()}
    most = max(amounts.values(), default=0)
    return {index: (round(amount / most, 3), told(amount)) for index, amount in sorted(amounts.items()) if amount}


def boxes_along(names: Iterable[str], graph: VisibleGraph) -> tuple[int, ...]:
    """Return the boxes in which the nodes of a way are seen, in its order; nodes outside the picture are skipped."""
    found = (graph.find(name) for name in names)
    return tuple(index for index, _ in groupby(index for index in found if index is not None))
