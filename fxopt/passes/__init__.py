"""The passes, one in each file, and the registry of those that the page lists and runs."""

from typing import Any

from fxopt.core import Pass
from fxopt.passes.cast_linears_to_bfloat16 import CastLinearsToBFloat16
from fxopt.passes.change_addmm_to_linear import ChangeAddmmToLinear
from fxopt.passes.change_true_div_to_mul_by_inverse import ChangeTrueDivToMulByInverse
from fxopt.passes.compile_regions import CompileRegions
from fxopt.passes.copy_shared_layer import CopySharedLayer
from fxopt.passes.delegate_regions import DelegateRegions
from fxopt.passes.fold_batch_norm import FoldBatchNorm
from fxopt.passes.fold_constants import FoldConstants
from fxopt.passes.fold_norm_affine_in_linear import FoldNormAffineInLinear
from fxopt.passes.fold_scale_in_linear import FoldScaleInLinear
from fxopt.passes.fuse_attention import FuseAttention
from fxopt.passes.fuse_batch_norm1d_in_linear import FuseBatchNorm1dInLinear
from fxopt.passes.fuse_batch_norm2d_in_conv2d import FuseBatchNorm2dInConv2d
from fxopt.passes.fuse_bias_in_linear import FuseBiasInLinear
from fxopt.passes.fuse_gelu import FuseGelu
from fxopt.passes.fuse_rms_norm import FuseRMSNorm
from fxopt.passes.identities import RemoveIdentities
from fxopt.passes.installed import InstalledPasses, installed_passes
from fxopt.passes.join_linears import JoinLinears
from fxopt.passes.merge_linears import MergeLinears
from fxopt.passes.pack_convolutions import PackConvolutions
from fxopt.passes.pack_linears import PackLinears
from fxopt.passes.plan_regions import PlanRegions
from fxopt.passes.quantize_linears import QuantizeLinears
from fxopt.passes.share_common_subexpressions import ShareCommonSubexpressions
from fxopt.rules import Rule


def _classes(*passes: type[Pass[Any]] | Rule) -> tuple[type[Pass[Any]], ...]:
    """Return the class of each pass. A rule is the one instance of a class of its own."""
    return tuple(type(one) if isinstance(one, Rule) else one for one in passes)


ALL_PASSES = _classes(  # in the order in which they are listed and run: classes, and rules as they are
    CopySharedLayer,
    FuseBatchNorm2dInConv2d,
    FuseBatchNorm1dInLinear,
    FoldBatchNorm,
    ChangeTrueDivToMulByInverse,
    ChangeAddmmToLinear,
    FoldScaleInLinear,
    MergeLinears,
    FuseBiasInLinear,
    RemoveIdentities,
    ShareCommonSubexpressions,
    FuseGelu,
    FuseRMSNorm,
    FuseAttention,
    FoldNormAffineInLinear,
    PackLinears,
    PackConvolutions,
    FoldConstants,
)


APPROXIMATE_PASSES = _classes(JoinLinears, CastLinearsToBFloat16, QuantizeLinears)
"""Passes that are on no list until someone asks for one by its name: they change results by more than rounding."""


def others_installed() -> InstalledPasses:
    """Return the passes that other installed packages bring, and those of them that are left out, with the reasons."""
    return installed_passes([kind.__name__ for kind in (*ALL_PASSES, *APPROXIMATE_PASSES)])


def registered_passes() -> tuple[type[Pass[Any]], ...]:
    """Return the class of each pass that a workbench has by itself: `ALL_PASSES`, then installed ones.

    The page, the command and recipes know these, and the `APPROXIMATE_PASSES` by their names.

    An installed pass is one of another package that names it by the entry point group ``fxopt.passes``. It is imported
    when this function is first called. One that fails to import, or whose name is taken, is left out with an
    `FxoptWarning`.
    """
    return (*ALL_PASSES, *others_installed().kinds)


__all__ = [
    "ALL_PASSES",
    "APPROXIMATE_PASSES",
    "CastLinearsToBFloat16",
    "ChangeAddmmToLinear",
    "ChangeTrueDivToMulByInverse",
    "CompileRegions",
    "CopySharedLayer",
    "DelegateRegions",
    "FoldBatchNorm",
    "FoldConstants",
    "FoldNormAffineInLinear",
    "FoldScaleInLinear",
    "FuseAttention",
    "FuseBatchNorm1dInLinear",
    "FuseBatchNorm2dInConv2d",
    "FuseBiasInLinear",
    "FuseGelu",
    "FuseRMSNorm",
    "InstalledPasses",
    "JoinLinears",
    "MergeLinears",
    "PackConvolutions",
    "PackLinears",
    "PlanRegions",
    "QuantizeLinears",
    "RemoveIdentities",
    "ShareCommonSubexpressions",
    "others_installed",
    "registered_passes",
]
