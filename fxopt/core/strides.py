"""Whether what comes after a tensor relies on how it lies in memory."""

from __future__ import annotations

from torch.fx import Node

from fxopt.core.graph import info_of, operation_name
from fxopt.core.index import GraphIndex

_SAME_MEMORY_OTHER_STRIDES = {"transpose", "permute", "unsqueeze", "squeeze", "getitem", "expand", "movedim",
                              "swapaxes", "chunk", "split", "split_with_sizes", "unbind", "narrow", "select",
                              "slice", "t", "dropout", "alias"}  # fmt: skip
_ANY_STRIDES = {"reshape", "flatten", "contiguous", "size", "sym_size", "dim", "softmax", "float", "half", "to",
                "type_as", "repeat", "repeat_interleave"}  # fmt: skip


def needs_contiguous(node: Node, index: GraphIndex) -> bool:
    """Whether something downstream may ask more of the memory of `node` than rows that lie apart can give.

    Merging the last dimension of a slice with others by ``view`` fails, and an output may be asked anything. Where all
    users are known to take any strides, or split the last dimension only, no copy is needed.
    """
    todo = [(user, node) for user in node.users]
    seen: set[Node] = set()
    while todo:
        user, tensor = todo.pop()
        name = operation_name(user)
        if user in seen or index.is_fresh(user) or name in _ANY_STRIDES:
            continue
        seen.add(user)
        follows = name in _SAME_MEMORY_OTHER_STRIDES or (
            name in ("view", "unflatten") and tensor is node and _splits_last_dimension(node, user)
        )
        if not follows:
            return True
        todo += [(later, user) for later in user.users]
    return False


def _splits_last_dimension(node: Node, view: Node) -> bool:
    before, after = info_of(node), info_of(view)
    if before is None or after is None:
        return False
    product = 1
    for size in reversed(after.shape):
        if not isinstance(size, int) or not isinstance(before.shape[-1], int) or product > before.shape[-1]:
            return False
        product *= size
        if product == before.shape[-1]:
            return True
    return False
