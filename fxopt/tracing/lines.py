"""The line of the user's model that is running, or that raised."""

from __future__ import annotations

import os
import sys
import sysconfig
from types import FrameType

import sympy
import torch

from fxopt.graph.nodes import SourceLine
from fxopt.process import module_calls

_TORCH = os.path.dirname(torch.__file__) + os.sep
_TORCH_NN = os.path.join(_TORCH, "nn") + os.sep
_MODULE_CALL = os.path.join(_TORCH_NN, "modules", "module.py")
_SYMPY = os.path.dirname(sympy.__file__) + os.sep
_STDLIB = sysconfig.get_path("stdlib") + os.sep
_HERE = os.path.dirname(__file__) + os.sep
_MODULE_CALLS = module_calls.__file__

RUNNER = "run_model"
"""The function of this package that calls the model: the frames above it are the caller's."""


def is_models(file: str) -> bool:
    """Return whether a file is a model's, or called by one: outside torch, Python's library and capture."""
    if file.startswith(("<", _TORCH, _HERE, _SYMPY, _MODULE_CALLS)):
        return False
    return not file.startswith(_STDLIB) or "site-packages" in file or "dist-packages" in file


def _is_torch_layer(file: str) -> bool:
    return file.startswith(_TORCH_NN) and file != _MODULE_CALL


def calling_line() -> SourceLine | None:
    """Return the innermost running line of the model; inside a model that is all torch's own, of its torch layer.

    It is None while no model is running.
    """
    found: tuple[FrameType, int] | None = None
    layer: tuple[FrameType, int] | None = None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if frame.f_code.co_name == RUNNER and file.startswith(_HERE):
            inner = found or layer
            return _line(*inner) if inner else None
        if found is None and is_models(file):
            found = frame, frame.f_lineno
        elif layer is None and _is_torch_layer(file):
            layer = frame, frame.f_lineno
        frame = frame.f_back
    return None


def _line(frame: FrameType, number: int) -> SourceLine:
    return SourceLine(frame.f_code.co_filename, number, frame.f_code.co_name)


def raising_line(error: BaseException) -> SourceLine | None:
    """Return the innermost line of the model on the way to the place where `error` was raised."""
    found: SourceLine | None = None
    layer: SourceLine | None = None
    below_runner = False
    step = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        if code.co_name == RUNNER and code.co_filename.startswith(_HERE):
            below_runner, found, layer = True, None, None
        elif below_runner and is_models(code.co_filename):
            found = _line(step.tb_frame, step.tb_lineno)
        elif below_runner and _is_torch_layer(code.co_filename):
            layer = _line(step.tb_frame, step.tb_lineno)
        step = step.tb_next
    return found or layer


def at(line: SourceLine | None) -> str:
    """Return `line` for a message: with its whole path, so that an editor can jump there."""
    return str(line) if line is not None else "a line of torch"


def briefly(line: SourceLine) -> str:
    return f"{os.path.basename(line.file)}:{line.line}"
