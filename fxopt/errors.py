"""Every error that fxopt raises on purpose, under one base class, and its warnings."""

import contextlib
import sys
import warnings
from collections.abc import Iterator
from contextvars import ContextVar


class FxoptError(Exception):
    """Says what is wrong, where (a node, a line, an input), why, and what to do about it."""


class RewriteError(FxoptError, RuntimeError):
    """A graph could not be rewritten or brought back; it is as it was before the call."""

    site = ""
    """The node at which a pass failed, where one did."""


class ModelError(FxoptError, ValueError):
    """A model source (a name of the zoo, a folder, its sizes) cannot be used."""


class CancelledError(FxoptError, RuntimeError):
    """The one who is told of the progress of some work asked to end it."""


class RuleError(FxoptError, TypeError):
    """A rule is written in a way that cannot become a pass; the message names its file and line."""


class FxoptWarning(UserWarning):
    """Something was asked for that had no effect, or only a part of it."""


_remarks: ContextVar[list[str] | None] = ContextVar("remarks", default=None)


@contextlib.contextmanager
def remarks() -> Iterator[list[str]]:
    """Collect in a list the messages of this thread's `FxoptWarning`s, which Python then does not issue.

    >>> with remarks() as made:
    ...     warn("two weights have no place")
    >>> made
    ['two weights have no place']
    """
    made: list[str] = []
    token = _remarks.set(made)
    try:
        yield made
    finally:
        _remarks.reset(token)


def warn(message: str) -> None:
    """Issue an `FxoptWarning` at the line that called into fxopt, however deep in fxopt this is."""
    made = _remarks.get()
    if made is not None:
        made.append(message)
        return
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("fxopt", "contextlib"):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, FxoptWarning, stacklevel=level)
