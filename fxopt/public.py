"""The public names, which `fxopt` gives on. Importing them imports torch, which takes seconds."""

import sys as _sys

from fxopt.core import (
    Exactness,
    FxoptError,
    FxoptWarning,
    Log,
    Match,
    Miss,
    ModelError,
    Pass,
    ReversibleTransformation,
    RewriteError,
    Rewriter,
    RuleError,
    Scan,
    Transformation,
    as_pass,
    bytes_retained,
    commit,
    compose,
    fingerprint,
    record,
    with_tensors,
)
from fxopt.display import before_the_first as _before_the_first
from fxopt.passes import (
    ALL_PASSES,
    CastLinearsToBFloat16,
    ChangeAddmmToLinear,
    ChangeTrueDivToMulByInverse,
    CompileRegions,
    CopySharedLayer,
    DelegateRegions,
    FoldBatchNorm,
    FoldConstants,
    FoldNormAffineInLinear,
    FoldScaleInLinear,
    FuseAttention,
    FuseBatchNorm1dInLinear,
    FuseBatchNorm2dInConv2d,
    FuseBiasInLinear,
    FuseGelu,
    FuseRMSNorm,
    JoinLinears,
    MergeLinears,
    PackConvolutions,
    PackLinears,
    PlanRegions,
    QuantizeLinears,
    RemoveIdentities,
    ShareCommonSubexpressions,
    registered_passes,
)
from fxopt.recipes import Recipe, RecipeError
from fxopt.rules import Rule, RuleSet, require, rewrite
from fxopt.tracing import CaptureError, CaptureReport, InputSizeError, annotate, capture, example_inputs, trace
from fxopt.ui.exploring import Exploration, explore
from fxopt.workbench import Workbench
from fxopt.workbench.optimize import optimize

__all__ = [
    "ALL_PASSES",
    "CaptureError",
    "CaptureReport",
    "CastLinearsToBFloat16",
    "ChangeAddmmToLinear",
    "ChangeTrueDivToMulByInverse",
    "CompileRegions",
    "CopySharedLayer",
    "DelegateRegions",
    "Exactness",
    "Exploration",
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
    "FxoptError",
    "FxoptWarning",
    "InputSizeError",
    "JoinLinears",
    "Log",
    "Match",
    "MergeLinears",
    "Miss",
    "ModelError",
    "PackConvolutions",
    "PackLinears",
    "Pass",
    "PlanRegions",
    "QuantizeLinears",
    "Recipe",
    "RecipeError",
    "RemoveIdentities",
    "ReversibleTransformation",
    "RewriteError",
    "Rewriter",
    "Rule",
    "RuleError",
    "RuleSet",
    "Scan",
    "ShareCommonSubexpressions",
    "Transformation",
    "Workbench",
    "annotate",
    "as_pass",
    "bytes_retained",
    "capture",
    "commit",
    "compose",
    "example_inputs",
    "explore",
    "fingerprint",
    "optimize",
    "record",
    "registered_passes",
    "require",
    "rewrite",
    "trace",
    "with_tensors",
]


def _display_richly() -> None:
    from fxopt.ui.notebook import display_richly

    display_richly()


if "IPython" in _sys.modules:
    _display_richly()
else:
    _before_the_first(_display_richly)
