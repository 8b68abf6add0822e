"""The passes, one in each file. `ALL_PASSES` is the registry, in the order in which the page lists and runs them."""

from typing import Any

from fxopt.core import Pass
from fxopt.passes.change_true_div_to_mul_by_inverse import ChangeTrueDivToMulByInverse
from fxopt.passes.fuse_batch_norm1d_in_linear import FuseBatchNorm1dInLinear
from fxopt.passes.fuse_batch_norm2d_in_conv2d import FuseBatchNorm2dInConv2d
from fxopt.passes.fuse_bias_in_linear import FuseBiasInLinear
from fxopt.passes.merge_linears import MergeLinears

ALL_PASSES: tuple[type[Pass[Any]], ...] = (
    FuseBatchNorm2dInConv2d,
    FuseBatchNorm1dInLinear,
    ChangeTrueDivToMulByInverse,
    MergeLinears,
    FuseBiasInLinear,
)

__all__ = [
    "ALL_PASSES",
    "ChangeTrueDivToMulByInverse",
    "FuseBatchNorm1dInLinear",
    "FuseBatchNorm2dInConv2d",
    "FuseBiasInLinear",
    "MergeLinears",
]
