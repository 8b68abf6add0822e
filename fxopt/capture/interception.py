"""Stand between the model and torch, in one thread only: its autocast regions, and questions."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch

from fxopt.capture.lines import calling_line, is_models
from fxopt.core.graph import SourceLine


class Told:
    """True in the thread that made it, false in all others; takes the place of a bool.

    ``asked`` is the line of the model that last asked; torch's own questions do not count.
    """

    def __init__(self, answer: bool = True) -> None:
        self.thread = threading.get_ident()
        self.answer = answer
        self.asked: SourceLine | None = None

    def __bool__(self) -> bool:
        if threading.get_ident() != self.thread:
            return False
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename == __file__:
            frame = frame.f_back
        if frame is not None and is_models(frame.f_code.co_filename):
            self.asked = calling_line() or self.asked
        return self.answer

    def __or__(self, other: Any) -> Any:
        return bool(self) | other

    def __and__(self, other: Any) -> Any:
        return bool(self) & other

    def __eq__(self, other: object) -> bool:
        return bool(self) == other

    __ror__, __rand__ = __or__, __and__
    __hash__ = None  # type: ignore[assignment]


@contextlib.contextmanager
def exporting(told: Told) -> Iterator[None]:
    """Answer ``torch.compiler.is_exporting()`` in this thread with `told`, and have nothing compiled meanwhile.

    Told that they are exported, models keep to what does not depend on data: transformers always builds its masks. The
    compiler would give up on a function that it meets during a recording, for good: ``torch.cond`` fails ever after.
    """
    compiler: Any = torch.compiler
    flags = compiler._is_compiling_flag, compiler._is_exporting_flag
    compiler._is_compiling_flag = compiler._is_exporting_flag = told
    try:
        with torch.compiler.set_stance("force_eager"):
            yield
    finally:
        compiler._is_compiling_flag, compiler._is_exporting_flag = flags


@contextlib.contextmanager
def not_exporting() -> Iterator[None]:
    """Within `exporting`: a script, told that it is exported, would run its Python source in its place, wrongly."""
    compiler: Any = torch.compiler
    flag, compiler._is_exporting_flag = compiler._is_exporting_flag, False
    try:
        yield
    finally:
        compiler._is_exporting_flag = flag


@contextlib.contextmanager
def autocast_regions(enter: Callable[[Any], None], leave: Callable[[Any], None]) -> Iterator[None]:
    """Tell of the autocast regions that this thread enters and leaves: function modes do not see them."""
    thread = threading.get_ident()
    kind: Any = torch.autocast
    kept_enter, kept_exit = kind.__enter__, kind.__exit__

    def entering(region: Any) -> Any:
        result = kept_enter(region)
        if threading.get_ident() == thread:
            enter(region)
        return result

    def leaving(region: Any, *error: Any) -> Any:
        if threading.get_ident() == thread:
            leave(region)
        return kept_exit(region, *error)

    kind.__enter__, kind.__exit__ = entering, leaving
    try:
        yield
    finally:
        kind.__enter__, kind.__exit__ = kept_enter, kept_exit
