"""Stride analysis: does any consumer require a contiguous tensor?"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, IntEnum, auto
from typing import Any

import torch
from torch.fx import Node

from fxopt.graph.index import GraphIndex
from fxopt.graph.metadata import reads_metadata_only
from fxopt.graph.module_table import modules_of
from fxopt.graph.nodes import info_of, operation_name
from fxopt.graph.operator_table import CASTS, DROPOUTS, NEEDS_ROWS_TOGETHER, ROW_MAJOR

_COPIES = {"contiguous", "clone", "empty_like", "_to_copy"}
_CONVERSIONS = CASTS | DROPOUTS | {"detach", "alias"}

_ROW_MAJOR_MODULES = modules_of(ROW_MAJOR)


class _Form(Enum):
    """The form in which a tensor further on may lie in memory."""

    SAME = auto()
    """As the one in question, and it has the same shape."""
    VIEW = auto()
    """As a view of it."""
    COPY = auto()
    """Without gaps, in the order that it had. Storage, and strides of dimensions of size 1, may be those of a view."""


class Memory(IntEnum):
    """The memory that a tensor needs, by the demands of its consumers."""

    ANY = 0
    """Its numbers alone are read."""
    CONTIGUOUS = 1
    """``.contiguous()`` serves: dimensions are joined by ``view``, or the caller gets it, who may do so."""
    OWN = 2
    """Strides, offset or storage are read, or may be by an unknown consumer. A copy in row-major order serves:
    ``.contiguous()`` of one row is a view with the strides of the rows."""


def needs_contiguous(node: Node, index: GraphIndex, width: int | None = None, *, turned: bool = False) -> bool:
    """Return whether a consumer may ask more of the memory of `node` than its numbers; see `memory_needed`."""
    return memory_needed(node, index, width, turned=turned) is not Memory.ANY


def memory_needed(node: Node, index: GraphIndex, width: int | None = None, *, turned: bool = False) -> Memory:
    """Return the memory that the consumers of `node`, and of all that may be a view of it, require.

    A call that returns new memory ends the search. An unknown consumer may ask anything.

    Args:
        width: the size of the last dimension, in case the metadata of `node` lacks it.
        turned: whether the dimensions of `node` may come to lie in another order. If not, it is a slice of the last
            dimension: its rows lie apart, which pointwise operations do not pass on.
    """
    todo = [(user, node, _Form.SAME) for user in node.users]
    seen: set[tuple[Node, _Form]] = set()
    needed = Memory.ANY
    while todo:
        user, tensor, form = todo.pop()
        if (user, form) in seen or reads_metadata_only(user, tensor):
            continue
        seen.add((user, form))
        effects, name = index.effects(user), operation_name(user)
        if effects.reads_strides and not (effects.opaque and form is _Form.COPY):
            return Memory.OWN
        joins = user.op == "output" or name in NEEDS_ROWS_TOGETHER
        if joins and form is _Form.SAME and _splits_last_dimension(node, user, width):
            form = _Form.VIEW
        elif joins and form is not _Form.COPY:
            needed, form = Memory.CONTIGUOUS, _Form.COPY
        elif name in _COPIES and not turned:
            form = _Form.COPY
        elif name not in _CONVERSIONS and form is _Form.SAME:
            form = _Form.VIEW
        if not effects.returns_new_memory or name in _COPIES or (turned and not is_row_major(user, index)):
            todo += [(later, user, form) for later in user.users]
    return needed


def is_row_major(node: Node, index: GraphIndex) -> bool:
    """Return whether the result of `node` is contiguous, however its inputs lie."""
    return operation_name(node) in ROW_MAJOR or isinstance(index.module_of(node), _ROW_MAJOR_MODULES)


def copy_for(node: Node, needed: Memory, *, operators: bool) -> tuple[str, Any, tuple[Node], dict[str, Any]]:
    """Return the call that gives the numbers of `node` in memory as it is `needed`: op, target, arguments and keywords.

    Args:
        operators: whether the graph calls operators of ATen.
    """
    own = needed is Memory.OWN
    keywords = {"memory_format": torch.contiguous_format} if own else {}
    if operators:
        target = torch.ops.aten.clone.default if own else torch.ops.aten.contiguous.default
        return "call_function", target, (node,), keywords
    return "call_method", "clone" if own else "contiguous", (node,), keywords


def _splits_last_dimension(node: Node, view: Node, width: int | str | None) -> bool:
    """Return whether the last sizes of `view` make up the last dimension of `node`, apart from the others."""
    if operation_name(view) != "view":
        return False
    before, after = info_of(node), info_of(view)
    width = before.shape[-1] if before is not None else width
    product = 1
    for size in reversed(after.shape if after is not None else _sizes_asked_for(view)):
        if not isinstance(size, int) or size < 0:
            return False
        product *= size
        if product == width:
            return True
    return False


def _sizes_asked_for(view: Node) -> Sequence[Any]:
    """Return the sizes that ``.view(*sizes)`` or ``.view(sizes)`` gives: numbers, -1, and nodes."""
    sizes = view.args[1:]
    return sizes[0] if len(sizes) == 1 and isinstance(sizes[0], list | tuple) else sizes
