"""Whether what comes after a tensor relies on how it lies in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.fx import Node

from fxopt.core.graph import info_of, operation_name
from fxopt.core.index import GraphIndex

_SAME_MEMORY_OTHER_STRIDES = {"transpose", "permute", "unsqueeze", "squeeze", "getitem", "expand", "movedim",
                              "swapaxes", "chunk", "split", "split_with_sizes", "unbind", "narrow", "select",
                              "slice", "t", "dropout", "alias"}  # fmt: skip
_ANY_STRIDES = {"reshape", "flatten", "contiguous", "size", "sym_size", "dim", "softmax", "float", "half", "to",
                "type_as", "repeat", "repeat_interleave"}  # fmt: skip


def needs_contiguous(node: Node, index: GraphIndex, width: int | None = None) -> bool:
    """Whether something downstream may ask more of the memory of `node` than rows that lie apart can give.

    Merging the last dimension of a slice with others by ``view`` fails, and an output may be asked anything. Where all
    users are known to take any strides, or split the last dimension only, no copy is needed.

    Args:
        width: the size of the last dimension, for where the metadata of `node` does not tell.
    """
    todo = [(user, node) for user in node.users]
    seen: set[Node] = set()
    while todo:
        user, tensor = todo.pop()
        name = operation_name(user)
        if user in seen or name in _ANY_STRIDES:
            continue
        seen.add(user)
        follows = name in _SAME_MEMORY_OTHER_STRIDES or (
            name in ("view", "unflatten") and tensor is node and _splits_last_dimension(node, user, width)
        )
        if follows:
            todo += [(later, user) for later in user.users]
        elif not index.is_fresh(user):
            return True
    return False


def _splits_last_dimension(node: Node, view: Node, width: int | str | None) -> bool:
    """Whether the last sizes of `view` make up the last dimension of `node`, so that it stays apart from the others."""
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
    """The sizes that ``.view(*sizes)`` or ``.view(sizes)`` gives: numbers, -1, and nodes."""
    if operation_name(view) != "view":
        return ()
    sizes = view.args[1:]
    return sizes[0] if len(sizes) == 1 and isinstance(sizes[0], list | tuple) else sizes
