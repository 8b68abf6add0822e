"""Places of values in a call, in Python's notation: ``args[1]``, ``kwargs['dim']``, ``args[0][2].start``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import Node

_STEP = re.compile(r"\[(-?\d+|'[^'\\]*'|\"[^\"\\]*\")\]|\.(start|stop|step)")
_SLICE = ("start", "stop", "step")
_PLAIN = (bool, int, float, str, type(None), torch.dtype, type(...))

Step = int | str


class NoSuchPlaceError(LookupError):
    """A place that the call lacks; the message lists the places that it has."""


def steps_of(at: str) -> tuple[Step, ...]:
    """Return the steps that lead to a place.

    >>> steps_of("args[0][2].start"), steps_of("kwargs['dim']")
    (('args', 0, 2, 'start'), ('kwargs', 'dim'))

    Raises:
        NoSuchPlaceError: the text is no place.
    """
    head, rest = re.match(r"(args|kwargs)?(.*)", at.strip(), re.DOTALL).groups()  # type: ignore[union-attr]
    steps: list[Step] = [head or ""]
    position = 0
    while head and position < len(rest):
        found = _STEP.match(rest, position)
        if found is None:
            break
        steps.append(ast.literal_eval(found[1]) if found[1] else found[2])
        position = found.end()
    if len(steps) < 2 or position < len(rest):
        raise NoSuchPlaceError(f"a place in a call is written args[1] or kwargs['dim'], and this is {at!r}")
    return tuple(steps)


def value_at(node: Node, at: str) -> Any:
    """Return the value at a place of the call that `node` makes.

    Raises:
        NoSuchPlaceError: the call has no such place.
    """
    first, *rest = steps_of(at)
    value: Any = node.args if first == "args" else node.kwargs
    for step in rest:
        try:
            value = getattr(value, str(step)) if isinstance(value, slice) else value[step]
        except (LookupError, TypeError, AttributeError):
            known = ", ".join(place for place, _ in places_of(node)) or "no argument"
            raise NoSuchPlaceError(f"{node.name} has nothing at {at}; it has {known}") from None
    return value


def with_value(node: Node, values: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of `node` with other values at some existing places."""
    arguments: Any = {"args": node.args, "kwargs": node.kwargs}
    for at, value in values.items():
        arguments = _replaced(arguments, steps_of(at), value)
    return arguments["args"], arguments["kwargs"]


def places_of(node: Node) -> Iterator[tuple[str, Any]]:
    """Yield every place in the call with its value: a node, or a constant free of nodes."""
    for i, value in enumerate(node.args):
        yield from _places(f"args[{i}]", value)
    for key, value in node.kwargs.items():
        yield from _places(f"kwargs[{key!r}]", value)


def constants_of(node: Node) -> tuple[tuple[str, Any], ...]:
    """Return the constants among the arguments of `node`, by place."""
    return tuple((at, value) for at, value in places_of(node) if is_plain(value))


def inputs_at(node: Node) -> tuple[tuple[str, Node], ...]:
    """Return the nodes among the arguments of `node`, by place."""
    return tuple((at, value) for at, value in places_of(node) if isinstance(value, Node))


def is_plain(value: Any) -> bool:
    """Return whether a value is a constant with a notation: numbers, text, None, dtypes, and lists of them."""
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    return isinstance(value, _PLAIN)


def is_same(one: Any, other: Any) -> bool:
    """Check that two constants are the same, where 1, 1.0 and True differ.

    >>> is_same((1, 2), [1, 2]), is_same(1, 1.0), is_same(float("nan"), float("nan"))
    (True, False, True)
    """
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(is_same, one, other))
    return type(one) is type(other) and (one == other or repr(one) == repr(other))


def _places(at: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Node) or is_plain(value):
        yield at, value
    elif isinstance(value, slice):
        for name in _SLICE:
            yield from _places(f"{at}.{name}", getattr(value, name))
    elif isinstance(value, list | tuple):
        for i, part in enumerate(value):
            yield from _places(f"{at}[{i}]", part)
    elif isinstance(value, dict):
        for key, part in value.items():
            if isinstance(key, int | str):
                yield from _places(f"{at}[{key!r}]", part)


def _replaced(inside: Any, steps: tuple[Step, ...], value: Any) -> Any:
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if isinstance(inside, slice):
        return slice(*(_replaced(getattr(inside, n), rest, value) if n == step else getattr(inside, n) for n in _SLICE))
    if isinstance(inside, dict):
        return {key: _replaced(part, rest, value) if key == step else part for key, part in inside.items()}
    at = int(step) % len(inside)
    parts = [_replaced(part, rest, value) if i == at else part for i, part in enumerate(inside)]
    if hasattr(inside, "_fields"):
        return type(inside)(*parts)
    return tuple(parts) if isinstance(inside, tuple) else parts
