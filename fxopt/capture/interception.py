"""Stand between the model and torch, in one thread only: its autocast regions, and questions."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch


class _InThread:
    """True in the thread that made it, false in all others; takes the place of a bool."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()

    def __bool__(self) -> bool:
        return threading.get_ident() == self.thread

    def __or__(self, other: Any) -> Any:
        return bool(self) | other

    def __and__(self, other: Any) -> Any:
        return bool(self) & other

    def __eq__(self, other: object) -> bool:
        return bool(self) == other

    __ror__, __rand__ = __or__, __and__
    __hash__ = None  # type: ignore[assignment]


@contextlib.contextmanager
def exporting() -> Iterator[None]:
    """Make ``torch.compiler.is_exporting()`` true in this thread, and have nothing compiled meanwhile.

    Models then keep to what does not depend on data: transformers always builds its masks. The compiler would
    give up on a function that it meets during a recording, for good: ``torch.cond`` fails ever after.
    """
    compiler: Any = torch.compiler
    flags = compiler._is_compiling_flag, compiler._is_exporting_flag
    compiler._is_compiling_flag = compiler._is_exporting_flag = _InThread()
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
