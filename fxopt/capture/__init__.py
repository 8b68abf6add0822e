"""Capture: from a model to a graph module at module level, whose nodes have shapes and the lines they come from."""

from fxopt.capture.checks import InputError, InputSizeError, install_checks
from fxopt.capture.examples import example_inputs, trace
from fxopt.capture.ladder import capture
from fxopt.capture.report import (
    BakedValue,
    CaptureCancelledError,
    CaptureError,
    CaptureReport,
    ExampleRefusedError,
    FailedRung,
    FixedSize,
)
from fxopt.capture.stored import CaptureStore

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
    "capture",
    "example_inputs",
    "install_checks",
    "trace",
]
