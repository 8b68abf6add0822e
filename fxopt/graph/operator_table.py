"""The table of the effects of operators, by name: on numbers, work and memory.

torch is asked first wherever it says something: schemas mark the arguments that are written and the results that may
be views (`operators.py`), the tag ``pointwise`` marks operators that work number by number (`is_tagged_pointwise`),
and the formulas of `torch.utils.flop_counter` count products (`fxopt.evidence.work`). The sets below hold the rest, and
the exceptions. Names are those in ATen's list (`operator_names.canonical`).

`tests/graph/test_operators.py` (memory) and `tests/graph/test_operator_table.py` (numbers and work) hold the sets
against the operators, called on real tensors.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch._ops import OpOverloadPacket

# ---- numbers

POINTWISE = frozenset({
    *("add", "sub", "rsub", "mul", "div", "floor_divide", "remainder", "fmod", "neg", "abs", "pow", "square", "sqrt"),
    *("rsqrt", "reciprocal", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin"),
    *("acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "sign", "floor"),
    *("ceil", "round", "trunc", "relu", "relu6", "gelu", "silu", "mish", "elu", "selu", "celu", "leaky_relu", "prelu"),
    *("sigmoid", "hardtanh", "hardswish", "hardsigmoid", "softplus", "softsign", "clamp", "maximum", "minimum", "lerp"),
    *("addcmul", "addcdiv", "where", "isnan", "isinf", "isfinite", "eq", "ne", "lt", "le", "gt", "ge", "logical_and"),
    *("logical_or", "logical_xor", "logical_not", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"),
})  # fmt: skip
"""Number by number. The result has no gaps, and the order in memory of its input if that has none: of some operators
that torch tags as pointwise it is a view, or lies otherwise."""

ACTIVATIONS = frozenset({
    *("relu", "relu6", "gelu", "silu", "mish", "elu", "selu", "celu", "leaky_relu", "prelu", "sigmoid", "tanh"),
    *("hardtanh", "hardswish", "hardsigmoid", "softplus", "softsign", "logsigmoid", "log_sigmoid", "tanhshrink"),
    *("softshrink", "hardshrink", "threshold", "rrelu", "glu"),
})  # fmt: skip
"""The nonlinearities of `torch.nn`, which have a color of their own in a picture."""

COMMUTATIVE = frozenset({"add", "mul", "eq", "ne", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor",
                         "logical_and", "logical_or", "logical_xor"})  # fmt: skip
"""The two operands may change places: the bits of the result are the same."""

JUMPS = frozenset({
    *("floor", "ceil", "round", "trunc", "frac", "floor_divide", "remainder", "fmod"),
    *("divmod", "eq", "ne", "lt", "le", "gt", "ge", "equal", "isclose", "allclose", "isin", "sign", "sgn", "signbit"),
    *("copysign", "heaviside", "angle", "atan2", "logical_and", "logical_or", "logical_xor", "logical_not", "not"),
    *("truth", "any", "all", "nonzero", "argwhere", "count_nonzero", "is_nonzero", "long", "int", "short", "byte"),
    *("char", "bool", "argmax", "argmin", "argsort", "bucketize", "searchsorted", "histc", "histogram", "unique"),
    *("unique_consecutive", "multinomial", "bernoulli", "threshold", "hardshrink", "frexp", "poisson", "rmod"),
    *("rfloordiv", "histogramdd", "linalg_matrix_rank", "matrix_rank", "unique2", "unique_dim"),
    "unique_dim_consecutive",
})  # fmt: skip
"""A small difference of the input may make a large one of the result. Without underscores around the name."""

EDGES = frozenset({"acos", "asin", "acosh", "atanh", "erfinv", "logit", "log1p", "special_ndtri", "special_xlog1py"})
"""Their domain ends at a number other than 0, behind which the result is NaN.

A product that is rounded otherwise keeps its 0 and its sign, so that domains that end at 0 are no matter there.
"""

DROPOUTS = frozenset({"dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout",
                      "feature_dropout"})  # fmt: skip
"""They return their input itself in evaluation mode."""

CASTS = frozenset({"to", "float", "double", "half", "bfloat16", "type", "type_as", "_to_copy"})
"""They convert the numbers to another dtype."""

FILLED = frozenset({"arange", "full", "full_like", "new_full", "new_ones", "new_zeros", "ones", "ones_like",
                    "scalar_tensor", "zeros", "zeros_like"})  # fmt: skip
"""New tensors of constants."""

LOOK_UPS = frozenset({"embedding", "gather", "index", "index_select", "_embedding_bag_forward_only"})
"""Numbers of a table at given places: of the table, only those places are read."""

COPIES = frozenset({
    *("cat", "stack", "pad", "constant_pad_nd", "masked_fill", "clone", "contiguous", "copy", "fill", "flip", "repeat"),
    *("roll", "tril", "triu", "select_scatter", "slice_scatter", "_reshape_copy"),
})  # fmt: skip
"""Each number of the result is one of the inputs', or a constant; none is computed."""

PRODUCTS = frozenset({
    *("linear", "bilinear", "addmm", "addmv", "addbmm", "baddbmm", "addr", "mm", "bmm", "mv", "dot", "vdot", "inner"),
    *("outer", "ger", "matmul", "chain_matmul", "linalg_multi_dot", "tensordot", "einsum"),
})  # fmt: skip
CONVOLUTIONS = frozenset({"convolution", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
                          "conv_transpose3d", "conv_tbc"})  # fmt: skip
ATTENTION = frozenset({"scaled_dot_product_attention", "multi_head_attention_forward"})
"""The three sets are sums of products, in which a processor spends its time."""

# ---- memory

MOVING = frozenset({"cat", "stack", "pad", "masked_fill", "clone", "ones_like", "zeros_like", "full_like"})
"""Of `COPIES` and `FILLED`: the order in memory of the result is known, and its numbers are independent of that of the
inputs."""

ROW_MAJOR = frozenset({"linear", "matmul", "bmm", "baddbmm", "addmm", "mm", "embedding", "softmax", "log_softmax",
                       "layer_norm"})  # fmt: skip
"""The result is contiguous, however the inputs lie. That of attention in one call lies as its query may."""

NEW = POINTWISE | frozenset({
    *("linear", "matmul", "bmm", "baddbmm", "addmm", "mm", "einsum", "conv1d", "conv2d", "conv3d", "conv_transpose1d"),
    *("conv_transpose2d", "conv_transpose3d", "convolution", "batch_norm", "layer_norm", "group_norm", "embedding"),
    *("softmax", "log_softmax", "scaled_dot_product_attention", "mean", "sum", "cumsum", "cat", "stack"),
    *("masked_fill", "logsigmoid", "log_sigmoid", "rms_norm"),
    *("pad", "clone", "ones", "zeros", "arange", "full", "ones_like", "zeros_like", "full_like"),
})  # fmt: skip
"""The result is memory of its own, though some are composite: torch does not rely on the schemas of those."""

RESHAPES = frozenset({"view", "view_as", "unflatten", "squeeze", "unsqueeze"})
"""Views that join, split, drop or add dimensions, and keep their order."""

PERMUTES = frozenset({"transpose", "permute", "t", "movedim"})
"""Views with the dimensions in another order."""

PARTS = frozenset({"narrow", "select", "slice"})
"""Views of a part, which lies with gaps."""

REPEATS = frozenset({"expand", "expand_as"})
"""Views that read numbers repeatedly."""

VIEWS = RESHAPES | PERMUTES | PARTS | REPEATS | {"alias", "detach"}
"""The result is always the input itself or a view of it, with strides that follow from those of the input."""

SEVERAL_PARTS = frozenset({"getitem", "chunk", "split", "unbind"})
"""Parts, as one tensor or several; copies where an index is a tensor."""

VIEWS_OR_COPIES = frozenset({"reshape", "reshape_as", "flatten", "_unsafe_view"})
"""As `RESHAPES`, but copies where no view would do, or as far as the schema says."""

UNFILLED = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})
"""New memory that holds no numbers yet."""

NEEDS_ROWS_TOGETHER = frozenset({"view", "view_as", "_unsafe_view", "view_as_complex", "view_as_real", "isin",
                                 "take_along_dim"})  # fmt: skip
"""torch refuses them where the dimensions that they join lie apart."""

READS_STRIDES = frozenset({
    *("stride", "sym_stride", "storage_offset", "sym_storage_offset", "is_contiguous", "dim_order", "is_set_to"),
    *("is_non_overlapping_and_dense", "is_strides_like_format", "sym_is_contiguous"),
    *("as_strided", "as_strided_", "as_strided_copy", "as_strided_scatter", "_reshape_alias", "_reshape_alias_copy"),
    *("set", "set_", "set_data", "detach_", "resize", "resize_", "resize_as", "resize_as_", "resize_as_sparse_"),
    *("data_ptr", "const_data_ptr", "storage", "typed_storage", "_typed_storage", "untyped_storage", "share_memory_"),
    *("numpy", "__array__", "__dlpack__", "to_dlpack", "__cuda_array_interface__", "from_dlpack", "asarray"),
    *("__reduce_ex__", "__deepcopy__", "_to_dlpack"),
})  # fmt: skip
"""The result tells how the input lies in memory, or depends on memory beside it; torch declares that of few."""

NOT_NEW = frozenset({"_unsafe_view", "native_dropout", "lift", "lift_fresh", "_reshape_alias", "_fw_primal", "to",
                     "_make_dual", "unsafe_split", "unsafe_split_with_sizes", "dequantize", "set"})  # fmt: skip
"""They may return their argument itself, which their schemas leave out."""

VIEW_ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "data", "real", "imag", "grad", "requires_grad", "is_leaf",
                            "grad_fn", "names"})  # fmt: skip
"""Attributes of a tensor that give a view of it, or are independent of memory."""

STATISTICS: dict[str, tuple[tuple[int | str, ...], tuple[int, str], Any]] = {
    "batch_norm": ((1, 2, 3, 4, "running_mean", "running_var"), (5, "training"), False),
    "instance_norm": ((1, 2, 3, 4, "running_mean", "running_var"), (5, "use_input_stats"), False),
    "native_batch_norm": ((3, 4, "running_mean", "running_var"), (5, "training"), False),
    "embedding": ((0, 1, "weight"), (3, "max_norm"), None),
    "embedding_bag": ((0, 1, "weight"), (4, "max_norm"), None),
}
"""Tensors that a function updates without a mark in its schema, and the argument whose value turns that off."""


@functools.cache
def is_tagged_pointwise(name: str) -> bool:
    """Return whether torch says of an overload of the operator of this name that it works number by number."""
    packet = getattr(torch.ops.aten, name, None) if name.isidentifier() else None
    if not isinstance(packet, OpOverloadPacket):
        return False
    return any(torch.Tag.pointwise in getattr(packet, overload).tags for overload in packet.overloads())
