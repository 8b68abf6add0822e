"""Calls that are known to return memory of their own: a new tensor, never an input or a view of one."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import nn
from torch.fx import Node

from fxopt.core.graph import operation_name

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
"""By name: element by element. The result has no gaps, and the order in memory of its input where that has none."""

MOVING = frozenset({"cat", "concat", "stack", "pad", "masked_fill", "clone", "ones_like", "zeros_like", "full_like"})
"""By name: they compute nothing from several numbers of one tensor."""

_OTHERS = frozenset({
    *("linear", "matmul", "bmm", "baddbmm", "addmm", "mm", "einsum", "conv1d", "conv2d", "conv3d", "conv_transpose1d"),
    *("conv_transpose2d", "conv_transpose3d", "convolution", "batch_norm", "layer_norm", "group_norm", "embedding"),
    *("softmax", "log_softmax", "scaled_dot_product_attention", "mean", "sum", "cumsum", "cat", "concat", "stack"),
    *("masked_fill", "logsigmoid", "log_sigmoid"),
    *("pad", "clone", "ones", "zeros", "arange", "full", "ones_like", "zeros_like", "full_like"),
})  # fmt: skip

_MODULES = (nn.Linear, nn.modules.conv._ConvNd, nn.modules.batchnorm._BatchNorm, nn.LayerNorm, nn.GroupNorm,
            nn.Embedding, nn.Softmax, nn.LogSoftmax, nn.ReLU, nn.Hardtanh, nn.GELU, nn.SiLU, nn.Mish, nn.ELU, nn.SELU,
            nn.CELU, nn.LeakyReLU, nn.PReLU, nn.Sigmoid, nn.LogSigmoid, nn.Hardswish, nn.Hardsigmoid, nn.Softplus,
            nn.Softsign, nn.Tanh)  # fmt: skip


def returns_new_memory(module: nn.Module | None) -> bool:
    """Whether a call of `module` is known to return memory of its own."""
    return isinstance(module, _MODULES) and not writes_in_place(module)


def writes_in_place(module: nn.Module | None) -> bool:
    """Whether a call of `module` changes its input, which it says by an attribute, as `nn.ReLU(inplace=True)` does."""
    if module is None:
        return False
    # not by `getattr` of the module, which takes long where there is no such attribute
    return bool(vars(module).get("inplace", getattr(type(module), "inplace", False)))


def is_fresh_call(node: Node) -> bool:
    """Whether `node` calls a function or method that returns memory of its own, unless it writes in place."""
    if node.op == "call_method":
        return node.target in POINTWISE or node.target in _OTHERS
    if node.op != "call_function" or not _is_fresh(node.target):
        return False
    # of one operand, a sum of products may be no more than its dimensions in another order: a view
    return operation_name(node) != "einsum" or len(node.all_input_nodes) > 1


def is_pointwise(node: Node) -> bool:
    """Whether `node` calls one of the operations `POINTWISE`."""
    return is_fresh_call(node) and operation_name(node) in POINTWISE


@functools.cache
def _is_fresh(function: Any) -> bool:
    if isinstance(function, torch._ops.OpOverload):
        name, home = function.overloadpacket.__name__, "torch" if function.namespace == "aten" else ""
    else:
        name, home = getattr(function, "__name__", ""), getattr(function, "__module__", None) or ""
    return _is_known_home(home) and (name in POINTWISE or name in _OTHERS)


def is_torchs_own(node: Node) -> bool:
    """Whether `node` calls a method, or a function of torch or Python rather than one's own that has its name."""
    return node.op == "call_method" or _is_known_home(getattr(node.target, "__module__", None) or "")


def _is_known_home(module: str) -> bool:
    return module.partition(".")[0] in ("torch", "_operator", "builtins", "math")
