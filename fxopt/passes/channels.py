"""Operations that pass channels on: every number keeps its channel, for any change of the shape."""

from __future__ import annotations

from typing import Any

from torch.fx import Node

from fxopt.core import GraphIndex, does_nothing, info_of, operation_name
from fxopt.graph.operator_table import PERMUTES, RESHAPES, VIEWS_OR_COPIES

_COPIES = {"clone", "contiguous", "alias"}
_TURNS = PERMUTES & {"transpose", "permute"}
"""Those of which the places of the dimensions are read from the arguments (`_order`)."""


def source(node: Node, index: GraphIndex) -> Node | None:
    """Return the one tensor that `node` passes on, if it does only that in evaluation mode; else None."""
    x = node.args[0] if node.args else node.kwargs.get("input")
    if not isinstance(x, Node):
        return None
    if does_nothing(node, index):
        return x
    name = operation_name(node) if node.op in ("call_function", "call_method") else ""
    return x if name in _COPIES | RESHAPES | VIEWS_OR_COPIES | _TURNS else None


def keeps_shape(node: Node) -> bool:
    """Return whether a node that passes channels on keeps the shape, too."""
    return node.op == "call_module" or operation_name(node) not in RESHAPES | VIEWS_OR_COPIES | _TURNS


def turns(node: Node) -> bool:
    """Return whether a node that passes channels on may lay its result in memory in another order than its shape."""
    return node.op != "call_module" and operation_name(node) in _TURNS


def place_after(node: Node, x: Node, place: int) -> int | None:
    """Return where dimension `place` of `x` lies in `node`, which passes `x` on; None if that is unknown."""
    if keeps_shape(node):
        return place
    before, after = info_of(x), info_of(node)
    if before is None or after is None or before.dtype != after.dtype:
        return None  # a view may also read the bits as another dtype
    if turns(node):
        order = _order(node, len(before.shape))
        return order.index(place) if order is not None else None
    # in row-major order, a dimension keeps its meaning where it and all before it, or all behind it, stay as they are
    if before.shape[: place + 1] == after.shape[: place + 1]:
        return place
    moved = place + len(after.shape) - len(before.shape)
    return moved if moved >= 0 and before.shape[place:] == after.shape[moved:] else None


def _order(node: Node, rank: int) -> list[int] | None:
    """Return the dimensions of the input in the order in which the result has them."""
    given: tuple[Any, ...] = tuple(node.args[1:])
    if len(given) == 1 and isinstance(given[0], list | tuple):
        given = tuple(given[0])
    if node.kwargs or not all(isinstance(place, int) for place in given):
        return None
    places = [place % rank for place in given]
    if operation_name(node) == "permute":
        return places
    if len(places) != 2:
        return None
    order, (one, two) = list(range(rank)), places
    order[one], order[two] = two, one
    return order
