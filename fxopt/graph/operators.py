"""The memory effects of operators: arguments written, results that may be views, strides read.

torch is asked first. The schema of an operator marks the arguments that it writes and the results that may be views
(`alias_info`); the tag ``maybe_aliasing_or_mutating`` marks schemas that promise too much. Functions and tensor methods
are looked up in ``torch.ops.aten`` by name, and of several overloads the effects of all hold. Two things torch does not
declare, so the tables below name them: which operators depend on strides, and which composite operators (those that are
calls of others, whose annotations torch itself does not rely on) return new memory. `tests/graph/test_operators.py`
holds all of it against the operators themselves.

An operator outside of these sources is `opaque`: it may write its arguments, return a view of them, and read strides.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from dataclasses import dataclass, is_dataclass
from types import FunctionType
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket
from torch.fx import Node

POINTWISE = frozenset({
    *("add", "sub", "rsub", "mul", "multiply", "div", "divide", "true_divide", "truediv", "floor_divide", "floordiv"),
    *("remainder", "mod", "fmod", "neg", "negative", "abs", "absolute", "pow", "square", "sqrt", "rsqrt", "reciprocal"),
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "atan2"),
    *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "sign", "floor", "ceil", "round", "trunc"),
    *("relu", "relu6", "gelu", "silu", "mish", "elu", "selu", "celu", "leaky_relu", "prelu", "sigmoid", "hardtanh"),
    *("hardswish", "hardsigmoid", "softplus", "softsign", "clamp", "clip", "maximum", "minimum"),
    *("lerp", "addcmul", "addcdiv", "where", "isnan", "isinf", "isfinite", "eq", "ne", "lt"),
    *("le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "logical_not", "bitwise_and", "bitwise_or"),
    *("bitwise_xor", "bitwise_not", "and_", "or_", "xor", "invert"),
})  # fmt: skip
"""By name: element by element. The result has no gaps, and the order in memory of its input if that has none."""

MOVING = frozenset({"cat", "concat", "stack", "pad", "masked_fill", "clone", "ones_like", "zeros_like", "full_like"})
"""By name: each number of the result comes from at most one number of each tensor."""

ROW_MAJOR = frozenset({"linear", "matmul", "bmm", "baddbmm", "addmm", "mm", "embedding", "softmax", "log_softmax",
                       "layer_norm", "scaled_dot_product_attention"})  # fmt: skip
"""By name: the result is contiguous, however the inputs lie."""

NEW = POINTWISE | frozenset({
    *("linear", "matmul", "bmm", "baddbmm", "addmm", "mm", "einsum", "conv1d", "conv2d", "conv3d", "conv_transpose1d"),
    *("conv_transpose2d", "conv_transpose3d", "convolution", "batch_norm", "layer_norm", "group_norm", "embedding"),
    *("softmax", "log_softmax", "scaled_dot_product_attention", "mean", "sum", "cumsum", "cat", "concat", "stack"),
    *("masked_fill", "logsigmoid", "log_sigmoid"),
    *("pad", "clone", "ones", "zeros", "arange", "full", "ones_like", "zeros_like", "full_like"),
})  # fmt: skip
"""By name, however they are spelled: the result is memory of its own, though some are composite."""

RESHAPES = frozenset({"view", "view_as", "unflatten", "squeeze", "unsqueeze"})
"""By name: views that join, split, drop or add dimensions, and keep their order."""

PERMUTES = frozenset({"transpose", "permute", "t", "movedim", "swapaxes", "swapdims"})
"""By name: views with the dimensions in another order."""

PARTS = frozenset({"narrow", "select", "slice"})
"""By name: views of a part, which lies with gaps."""

REPEATS = frozenset({"expand", "expand_as"})
"""By name: views that read numbers repeatedly."""

VIEWS = RESHAPES | PERMUTES | PARTS | REPEATS | {"alias", "detach"}
"""By name: the result is always the input itself or a view of it, with strides that follow from those of the input."""

SEVERAL_PARTS = frozenset({"getitem", "chunk", "split", "unbind"})
"""By name: parts, as one tensor or several; copies where an index is a tensor."""

VIEWS_OR_COPIES = frozenset({"reshape", "reshape_as", "flatten", "_unsafe_view"})
"""By name: as `RESHAPES`, but copies where no view would do, or as far as the schema says."""

NEEDS_ROWS_TOGETHER = frozenset({"view", "view_as", "_unsafe_view", "view_as_complex", "view_as_real", "isin",
                                 "take_along_dim"})  # fmt: skip
"""By name: torch refuses them where the dimensions that they join lie apart."""

_READS_STRIDES = frozenset({
    *("stride", "sym_stride", "storage_offset", "sym_storage_offset", "is_contiguous", "dim_order", "is_set_to"),
    *("is_non_overlapping_and_dense", "is_strides_like_format", "sym_is_contiguous"),
    *("as_strided", "as_strided_", "as_strided_copy", "as_strided_scatter", "_reshape_alias", "_reshape_alias_copy"),
    *("set", "set_", "set_data", "detach_", "resize", "resize_", "resize_as", "resize_as_", "resize_as_sparse_"),
    *("data_ptr", "const_data_ptr", "storage", "typed_storage", "_typed_storage", "untyped_storage", "share_memory_"),
    *("numpy", "__array__", "__dlpack__", "to_dlpack", "__cuda_array_interface__", "from_dlpack", "asarray"),
    *("__reduce_ex__", "__deepcopy__", "_to_dlpack"),
})  # fmt: skip
"""By name: the result tells how the input lies in memory, or depends on memory beside it."""

VIEW_ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "data", "real", "imag", "grad", "requires_grad", "is_leaf",
                            "grad_fn", "names"})  # fmt: skip
"""Attributes of a tensor that give a view of it, or are independent of memory."""

_NOT_NEW = frozenset({"_unsafe_view", "native_dropout", "lift", "lift_fresh", "_reshape_alias", "_fw_primal", "to",
                      "_make_dual", "unsafe_split", "unsafe_split_with_sizes", "dequantize",
                      "set"})  # fmt: skip
"""By name: they may return their argument itself, which their schemas leave out."""

_IN_PLACE = frozenset({operator.setitem, operator.iadd, operator.isub, operator.imul, operator.itruediv,
                       operator.ifloordiv, operator.imod, operator.ipow, operator.imatmul, operator.iand,
                       operator.ior, operator.ixor, operator.ilshift, operator.irshift, operator.iconcat,
                       operator.delitem})  # fmt: skip
_NOT_IN_PLACE = ("and_", "or_", "not_", "is_")

STATISTICS: dict[str, tuple[tuple[int | str, ...], tuple[int, str], Any]] = {
    "batch_norm": ((1, 2, 3, 4, "running_mean", "running_var"), (5, "training"), False),
    "instance_norm": ((1, 2, 3, 4, "running_mean", "running_var"), (5, "use_input_stats"), False),
    "native_batch_norm": ((3, 4, "running_mean", "running_var"), (5, "training"), False),
    "embedding": ((0, 1, "weight"), (3, "max_norm"), None),
    "embedding_bag": ((0, 1, "weight"), (4, "max_norm"), None),
}
"""Tensors that a function updates without a mark in its schema, and the argument whose value turns that off."""

_OF_TORCH = ("torch", "torch.functional", "torch._tensor", "torch._VF", "torch._jit_internal", "torch.nn.functional",
             "torch.nn.init", "torch.amp.autocast_mode", "torch._ops.aten", "torch._ops.prims", "_operator",
             "builtins", "math", "collections", "itertools", "fxopt.tracing.structure")  # fmt: skip
_OF_CONTAINERS = frozenset(name for kind in (dict, list, tuple, str, int, float, bool, slice, torch.Size)
                           for name in dir(kind))  # fmt: skip


@dataclass(frozen=True)
class Operator:
    """The memory effects of one operator, however it is called."""

    written: frozenset[int | str] = frozenset()
    """Places and names of the arguments that it may write to."""
    returns_new_memory: bool = False
    reads_strides: bool = False
    opaque: str = ""
    """The words for an unknown operator: ``a function of one's own``."""


_OPAQUE_FUNCTION = Operator(reads_strides=True, opaque="a function that is not torch's")


def name_of(target: Any, is_method: bool = False) -> str:
    """Return the name of an operator without its home and overload: ``view`` of ``aten.view.default``."""
    if isinstance(target, OpOverload):
        return str(target.overloadpacket.__name__)
    return str(target) if is_method else str(getattr(target, "__name__", ""))


def is_torchs_own(target: Any, is_method: bool = False) -> bool:
    """Return True for operators of torch and Python, False for one's own, though it may bear the name of one."""
    if is_method:
        return hasattr(torch.Tensor, str(target)) or str(target) in _OF_CONTAINERS
    if isinstance(target, type) and (issubclass(target, dict | tuple | list) or is_dataclass(target)):
        return True  # it holds its argument
    home = getattr(target, "__module__", None) or ""
    if isinstance(target, OpOverload | OpOverloadPacket):
        return home in ("torch._ops.aten", "torch._ops.prims")
    if not home:
        return getattr(target, "__objclass__", None) in torch.Tensor.__mro__
    return home in _OF_TORCH or home.startswith("torch._C")


def calls_torchs_own(node: Node) -> bool:
    """Return True where `node` calls an operator of torch or Python, by function or method."""
    return is_torchs_own(node.target, node.op == "call_method")


def operator_of(target: Any, is_method: bool = False) -> Operator:
    """Return the memory effects of the target of a node, a function or the name of a method."""
    try:
        return _operator_of(target, is_method)
    except TypeError:  # a callable without a hash
        return _OPAQUE_FUNCTION


@functools.lru_cache(maxsize=4096)  # a graph calls few functions, many times
def _operator_of(target: Any, is_method: bool) -> Operator:
    name = name_of(target, is_method)
    if isinstance(target, OpOverload):
        return _declared(name, [target], is_torchs_own(target))
    if isinstance(target, OpOverloadPacket):
        return _declared(name, _overloads(target), is_torchs_own(target))
    if not is_torchs_own(target, is_method):
        kind = "a method that is not of torch's tensors" if is_method else _OPAQUE_FUNCTION.opaque
        return Operator(reads_strides=True, opaque=kind)
    packet = getattr(torch.ops.aten, name, None) if name.isidentifier() else None
    overloads = _overloads(packet) if isinstance(packet, OpOverloadPacket) else []
    made = _declared(name, overloads, torchs_own=True)
    written = made.written | (_FIRST if _says_in_place(target, name) else frozenset())
    in_python = isinstance(getattr(torch.Tensor, name, None) if is_method else target, FunctionType)
    new = name in NEW or (made.returns_new_memory and bool(overloads) and not in_python)
    return Operator(written, new and not _says_in_place(target, name), made.reads_strides)


_FIRST: frozenset[int | str] = frozenset({0, "input", "self"})


def _says_in_place(target: Any, name: str) -> bool:
    by_name = name.endswith("_") and not name.endswith("__") and name not in _NOT_IN_PLACE
    return by_name or name in ("__setitem__", "__delitem__") or (not isinstance(target, str) and target in _IN_PLACE)


def _overloads(packet: OpOverloadPacket) -> list[OpOverload]:
    """Return the overloads. Those of TorchScript alone, such as a sort of lists in place, count where no other is."""
    found = [getattr(packet, name) for name in packet.overloads()]
    return [overload for overload in found if _has_kernel(overload, "CompositeImplicitAutograd") is not None] or found


def _declared(name: str, overloads: Iterable[OpOverload], torchs_own: bool) -> Operator:
    """Return the effects that the schemas declare, of all overloads together; those by hand if torch declares none."""
    written: set[int | str] = set()
    new = not (torchs_own and name in _NOT_NEW)
    strict = True
    for overload in overloads:
        schema = overload._schema
        out = False
        for place, argument in enumerate(schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                out = out or argument.kwarg_only
                written |= {argument.name} if argument.kwarg_only else {argument.name, place}
        new = new and (out or (torchs_own and name in NEW) or _declares_new(overload))
        strict = strict and torch.Tag.flexible_layout not in overload.tags
    return Operator(frozenset(written), new, (strict if not torchs_own else name in _READS_STRIDES))


def _declares_new(overload: OpOverload) -> bool:
    returns = [returned for returned in overload._schema.returns if "Tensor" in str(returned.type)]
    if any(returned.alias_info is not None for returned in returns):
        return False
    return not returns or not (torch.Tag.maybe_aliasing_or_mutating in overload.tags or _is_composite(overload))


def _is_composite(overload: OpOverload) -> bool:
    """Return whether it is a call of other operators, so that the marks of its own schema bind nobody."""
    return _has_kernel(overload, "CompositeImplicitAutograd") is not False


def _has_kernel(overload: OpOverload, key: str) -> bool | None:
    """Return None for an operator of TorchScript alone, which the dispatcher does not know."""
    try:
        return bool(torch._C._dispatch_has_kernel_for_dispatch_key(overload.name(), key))
    except RuntimeError:
        return None
