"""Capture: from a model to a graph module at module level, whose nodes have shapes and the lines they come from."""

from fxopt.tracing.annotating import annotate
from fxopt.tracing.checks import InputError, InputSizeError
from fxopt.tracing.examples import example_inputs, trace
from fxopt.tracing.installed_checks import install_checks
from fxopt.tracing.ladder import capture
from fxopt.tracing.report import (
    BakedValue,
    CaptureCancelledError,
    CaptureError,
    CaptureReport,
    ExampleRefusedError,
    FailedRung,
    FixedSize,
)
from fxopt.tracing.stored import CaptureStore

__all__ = [
    "BakedValue",
    "CaptureCancelledError",
    "CaptureError",
    "CaptureReport",
    "CaptureStore",
    "ExampleRefusedError",
    "FailedRung",
    "FixedSize",
    "InputError",
    "InputSizeError",
    "annotate",
    "capture",
    "example_inputs",
    "install_checks",
    "trace",
]
