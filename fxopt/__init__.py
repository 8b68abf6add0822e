"""Reversible torch.fx graph transformations, explained, and a page to explore them."""

import typing as _typing

from fxopt import errors as _errors
from fxopt.core import (
    Exactness,
    FxoptError,
    FxoptWarning,
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
    bytes_retained,
    commit,
    compose,
    fingerprint,
    with_tensors,
)
from fxopt.passes import (
    ALL_PASSES,
    ChangeTrueDivToMulByInverse,
    FoldBatchNorm,
    FuseBatchNorm1dInLinear,
    FuseBatchNorm2dInConv2d,
    FuseBiasInLinear,
    MergeLinears,
    PackConvolutions,
    PackLinears,
    RemoveIdentities,
)
from fxopt.recipes import Recipe, RecipeError
from fxopt.rules import Rule, RuleSet, require, rewrite
from fxopt.tracing import CaptureError, CaptureReport, InputSizeError, capture, example_inputs, trace
from fxopt.workbench import Workbench
from fxopt.workbench.optimize import optimize

__all__ = [
    "ALL_PASSES",
    "CaptureError",
    "CaptureReport",
    "ChangeTrueDivToMulByInverse",
    "Exactness",
    "FoldBatchNorm",
    "FuseBatchNorm1dInLinear",
    "FuseBatchNorm2dInConv2d",
    "FuseBiasInLinear",
    "FxoptError",
    "FxoptWarning",
    "InputSizeError",
    "Match",
    "MergeLinears",
    "Miss",
    "ModelError",
    "PackConvolutions",
    "PackLinears",
    "Pass",
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
    "Transformation",
    "Workbench",
    "bytes_retained",
    "capture",
    "commit",
    "compose",
    "example_inputs",
    "fingerprint",
    "optimize",
    "require",
    "rewrite",
    "trace",
    "with_tensors",
]

if not _typing.TYPE_CHECKING:  # else every name would be right

    def __getattr__(name):
        return _errors.renamed(__name__, name, {"bytes_kept": "bytes_retained"})
