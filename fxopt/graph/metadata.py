"""Readers of a tensor's metadata: of its shape, dtype and device alone.

They survive a rewrite that keeps shape, dtype and device, so they do not count as users: a norm that asserts ``x.ndim
== 4`` leaves the convolution before it to the norm alone. If the tensor goes, they read another of the same shape,
dtype and device. The layout of a tensor in memory (``stride``, ``is_contiguous``, ``data_ptr``, and so the strides of
``zeros_like``) and its part in training (``requires_grad``, ``grad_fn``) are not metadata in this sense.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.fx import Node
from torch.fx.node import map_arg

from fxopt.graph.nodes import info_of, operation_name
from fxopt.graph.operators import calls_torchs_own

_ATTRIBUTES = {"shape", "ndim", "dtype", "device", "layout", "itemsize", "nbytes", "is_cuda", "is_cpu", "is_xpu",
               "is_mps", "is_meta", "is_sparse", "is_quantized", "is_mkldnn"}  # fmt: skip
_QUESTIONS = {"size", "sym_size", "dim", "ndimension", "numel", "nelement", "sym_numel", "len", "__len__",
              "element_size", "get_device", "is_floating_point", "is_complex", "is_signed", "is_tensor", "is_same_size",
              "device", "dtype", "layout", "_assert_tensor_metadata", "_shape_as_tensor"}  # fmt: skip
_NEW_TENSORS = {"new_empty", "new_full", "new_ones", "new_tensor", "new_zeros"}
_LIKE_THE_SECOND = {"expand_as", "reshape_as", "view_as", "type_as", "to"}
_STRIDE = 2  # the place of ``stride`` among the arguments of ``aten._assert_tensor_metadata``


def reads_metadata_only(user: Node, node: Node) -> bool:
    """Return whether `user` reads of `node` the shape, dtype or device alone."""
    if user.op not in ("call_function", "call_method") or not calls_torchs_own(user):
        return False
    name, args = operation_name(user), user.args
    if name == "getattr":
        return len(args) == 2 and args[1] in _ATTRIBUTES
    if name in _LIKE_THE_SECOND:
        given = args[1] if len(args) > 1 else user.kwargs.get("other", user.kwargs.get("tensor"))
        return given is node and _times(user, node) == 1
    first = args[0] if args else next(iter(user.kwargs.values()), None)
    if name == "is_same_size":
        return node in user.all_input_nodes
    if name in _QUESTIONS:
        strides = args[_STRIDE] if len(args) > _STRIDE else user.kwargs.get("stride")
        return first is node and (name != "_assert_tensor_metadata" or strides is None)
    if name in _NEW_TENSORS:
        return args[:1] == (node,) and _times(user, node) == 1
    return name == "type" and args == (node,) and not user.kwargs


def is_metadata(node: Node) -> bool:
    """Return whether `node` gives metadata of its inputs, or a tensor made of it alone, in memory of its own."""
    return bool(node.all_input_nodes) and all(reads_metadata_only(node, other) for other in node.all_input_nodes)


def readers_of(node: Node) -> list[Node]:
    """Return the users of `node` that read more of it than its metadata, in their order."""
    return [user for user in node.users if not reads_metadata_only(user, node)]


def with_metadata_of(node: Node, candidates: Sequence[Node]) -> Node | None:
    """Return the first of `candidates` that is known to have the shape, dtype and device of `node`, if there is one."""
    info = info_of(node)
    return next((other for other in candidates if info is not None and info_of(other) == info), None)


def _times(user: Node, node: Node) -> int:
    """Return how many times `user` is given `node`."""
    found: list[Any] = []
    map_arg((user.args, user.kwargs), lambda other: found.append(other) if other is node else None)
    return len(found)
