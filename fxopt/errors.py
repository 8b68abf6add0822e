"""Every error that fxopt raises on purpose, under one base class, and its warnings."""

import contextlib
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any


class FxoptError(Exception):
    """Base class of fxopt's errors.

    The message says the fault, its place (a node, a line, an input), the reason and the remedy.
    """


class RewriteError(FxoptError, RuntimeError):
    """A failed rewrite or reversal of a graph; the graph is as it was before the call."""

    site = ""
    """The node at which a pass failed, where one did."""


class ModelError(FxoptError, ValueError):
    """An unusable model source: a name of the zoo, a folder, or its sizes."""


class CancelledError(FxoptError, RuntimeError):
    """The one who is told of the progress of some work asked to end it."""


class RuleError(FxoptError, TypeError):
    """A rule written in a form that cannot become a pass; the message names its file and line."""


class FxoptWarning(UserWarning):
    """A request that was ignored, wholly or in part."""


_remarks: ContextVar[list[str] | None] = ContextVar("remarks", default=None)


@contextlib.contextmanager
def remarks() -> Iterator[list[str]]:
    """Collect the messages of this thread's `FxoptWarning`s in a list, instead of issuing them.

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


def renamed(module: str, name: str, new_names: Mapping[str, str]) -> Any:
    """Return the public thing that was called `name` before, with a `DeprecationWarning`.

    For the `__getattr__` of a module.

    Args:
        new_names: by old name.
    """
    if name not in new_names:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    warnings.warn(f"{module}.{name} is now {module}.{new_names[name]}", DeprecationWarning, stacklevel=3)
    return getattr(sys.modules[module], new_names[name])
