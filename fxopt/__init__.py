"""Reversible torch.fx graph transformations, explained, and a page to explore them."""

from fxopt.capture import CaptureError, CaptureReport, InputSizeError, capture, example_inputs, trace
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
    Scan,
    Transformation,
    compose,
    fingerprint,
)
from fxopt.passes import (
    ALL_PASSES,
    ChangeTrueDivToMulByInverse,
    FuseBatchNorm1dInLinear,
    FuseBatchNorm2dInConv2d,
    FuseBiasInLinear,
    MergeLinears,
)
from fxopt.workbench import Workbench

__all__ = [
    "ALL_PASSES",
    "CaptureError",
    "CaptureReport",
    "ChangeTrueDivToMulByInverse",
    "Exactness",
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
    "Pass",
    "ReversibleTransformation",
    "RewriteError",
    "Rewriter",
    "Scan",
    "Transformation",
    "Workbench",
    "capture",
    "compose",
    "example_inputs",
    "fingerprint",
    "trace",
]
