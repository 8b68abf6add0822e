"""The passes, one in each file. The lines below register them, in the order in which the page lists and runs them."""

from typing import Any

from fxopt.core import Pass

# isort: off
from fxopt.passes.fuse_batch_norm2d_in_conv2d import FuseBatchNorm2dInConv2d as FuseBatchNorm2dInConv2d
from fxopt.passes.fuse_batch_norm1d_in_linear import FuseBatchNorm1dInLinear as FuseBatchNorm1dInLinear
from fxopt.passes.fold_batch_norm import FoldBatchNorm as FoldBatchNorm
from fxopt.passes.change_true_div_to_mul_by_inverse import ChangeTrueDivToMulByInverse as ChangeTrueDivToMulByInverse
from fxopt.passes.merge_linears import MergeLinears as MergeLinears
from fxopt.passes.fuse_bias_in_linear import FuseBiasInLinear as FuseBiasInLinear
# isort: on

ALL_PASSES: tuple[type[Pass[Any]], ...] = tuple(
    kind for kind in list(globals().values()) if isinstance(kind, type) and issubclass(kind, Pass) and kind is not Pass
)
