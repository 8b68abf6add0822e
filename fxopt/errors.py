"""Every error that fxopt raises on purpose, under one base class, and its warnings."""

from __future__ import annotations

import contextlib
import difflib
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from types import FunctionType, UnionType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from torch.fx import GraphModule


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


class ArgumentError(FxoptError, TypeError):
    """An argument of another kind than the call takes."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the question that follows a name that is unknown; an empty text where no known one is near.

    >>> did_you_mean("mergelinear", ["MergeLinears", "PackLinears", "FuseGelu"]), did_you_mean("x", ["FuseGelu"])
    (' Did you mean MergeLinears or PackLinears?', '')
    """
    names = {one.lower(): one for one in known}
    near = difflib.get_close_matches(name.lower(), names, n=2, cutoff=0.5)
    return f" Did you mean {' or '.join(names[one] for one in near)}?" if near else ""


def expect(value: object, kind: type | UnionType, call: str, takes: str, remedy: str = "") -> None:
    """Check that an argument is of a kind that the call takes.

    >>> expect("bert", dict, "fxopt.trace", "a torch.nn.Module", "build it first")
    Traceback (most recent call last):
        ...
    fxopt.errors.ArgumentError: fxopt.trace takes a torch.nn.Module; this is the text 'bert' (build it first)

    Args:
        call: the function that was called, and its argument where it has several.
        takes: the kind that it takes, in words.

    Raises:
        ArgumentError: it is of another one.
    """
    if not isinstance(value, kind):
        raise ArgumentError(f"{call} takes {takes}; this is {in_words(value)}" + (f" ({remedy})" if remedy else ""))


def expect_model(value: object, call: str) -> None:
    """Check that an argument is a ``torch.nn.Module``.

    Raises:
        ArgumentError: it is none.
    """
    from torch import nn  # only here: the page is on screen while torch is imported

    remedy = "make an instance of it" if isinstance(value, type) else "build the model first, in Python"
    if isinstance(value, FunctionType):
        remedy = "let it be the forward of a torch.nn.Module, or trace it alone: torch.fx.symbolic_trace"
    expect(value, nn.Module, call, "a model, a torch.nn.Module", remedy)


def expect_graph(value: object, call: str) -> GraphModule:
    """Check that an argument is a ``torch.fx.GraphModule``, and return it.

    Raises:
        ArgumentError: it is none.
    """
    from torch.fx import GraphModule

    expect(value, GraphModule, call, "a graph module", "fxopt.capture(model, args) makes one of a model")
    return cast(GraphModule, value)


def in_words(value: object) -> str:
    """Return the kind of a value in words, and the value itself where it is short.

    >>> in_words("bert"), in_words(dict), in_words(3), in_words([])
    ("the text 'bert'", 'the class dict', 'the int 3', 'a list')
    """
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, str):
        return f"the text {value[:40]!r}"
    if value is None:
        return "None"
    if isinstance(value, int | float):
        return f"the {type(value).__name__} {value}"
    kind = type(value).__name__
    return f"{'an' if kind[:1] in 'AEIOUaeiou' else 'a'} {kind}"


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
