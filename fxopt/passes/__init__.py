"""The passes, one in each file, and the registry of those that the page lists and runs."""

from typing import Any

from fxopt.core import Pass
from fxopt.passes.change_true_div_to_mul_by_inverse import ChangeTrueDivToMulByInverse
from fxopt.passes.fold_batch_norm import FoldBatchNorm
from fxopt.passes.fuse_batch_norm1d_in_linear import FuseBatchNorm1dInLinear
from fxopt.passes.fuse_batch_norm2d_in_conv2d import FuseBatchNorm2dInConv2d
from fxopt.passes.fuse_bias_in_linear import FuseBiasInLinear
from fxopt.passes.identities import RemoveIdentities
from fxopt.passes.merge_linears import MergeLinears
from fxopt.passes.pack_convolutions import PackConvolutions
from fxopt.passes.pack_linears import PackLinears
from fxopt.rules import Rule


def _classes(*passes: type[Pass[Any]] | Rule) -> tuple[type[Pass[Any]], ...]:
    """Return the class of each pass. A rule is the one instance of a class of its own."""
    return tuple(type(one) if isinstance(one, Rule) else one for one in passes)


ALL_PASSES = _classes(  # in the order in which they are listed and run: classes, and rules as they are
    FuseBatchNorm2dInConv2d,
    FuseBatchNorm1dInLinear,
    FoldBatchNorm,
    ChangeTrueDivToMulByInverse,
    MergeLinears,
    FuseBiasInLinear,
    RemoveIdentities,
    PackLinears,
    PackConvolutions,
)

__all__ = [
    "ALL_PASSES",
    "ChangeTrueDivToMulByInverse",
    "FoldBatchNorm",
    "FuseBatchNorm1dInLinear",
    "FuseBatchNorm2dInConv2d",
    "FuseBiasInLinear",
    "MergeLinears",
    "PackConvolutions",
    "PackLinears",
    "RemoveIdentities",
]
