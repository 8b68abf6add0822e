"""Conditions over a snapshot: data with a closed vocabulary of facts, joined by `all`, `any` and `not`.

Nothing in a condition is evaluated as code. `vocabulary.py` has the facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from fxopt.lessons.errors import unknown
from fxopt.lessons.facts import Snapshot
from fxopt.lessons.settings import Setting
from fxopt.lessons.vocabulary import FACTS, START, Known


class Condition(Protocol):
    """A condition that holds or not on a snapshot."""

    def holds(self, now: Snapshot) -> bool: ...

    def facts(self) -> Iterator[Fact]:
        """Yield the facts that it speaks of."""


@dataclass(frozen=True)
class Fact:
    """One fact, and the values that it is asked for."""

    name: str
    arguments: Mapping[str, Any] = field(hash=False)
    line: int = field(compare=False)

    def holds(self, now: Snapshot) -> bool:
        return FACTS[self.name].holds(now, self.arguments)

    def facts(self) -> Iterator[Fact]:
        yield self


@dataclass(frozen=True)
class Joined:
    """Conditions of which all hold, any holds, or none holds."""

    how: str
    parts: tuple[Condition, ...]

    def holds(self, now: Snapshot) -> bool:
        if self.how == "not":
            return not self.parts[0].holds(now)
        return (all if self.how == "all" else any)(part.holds(now) for part in self.parts)

    def facts(self) -> Iterator[Fact]:
        for part in self.parts:
            yield from part.facts()


_JOINS = ("all", "any", "not")


def condition_of(value: Setting, known: Known) -> Condition:
    """Return the condition that settings describe.

    Raises:
        LessonError: it is none; the error has the line, and the nearest known name.
    """
    table = value.table()
    if len(table) != 1:
        raise value.fail(f"a condition has one name, and this has {len(table)}; join several with {{all: [...]}}")
    ((name, inner),) = table.items()
    if name in ("all", "any"):
        parts = tuple(condition_of(one, known) for one in inner.items())
        if not parts:
            raise inner.fail(f"{name} has no condition in it")
        return Joined(name, parts)
    if name == "not":
        return Joined(name, (condition_of(inner, known),))
    if name not in FACTS:
        raise value.fail(unknown("fact", name, (*FACTS, *_JOINS)))
    return Fact(name, FACTS[name].read(inner, known), inner.line)


def figures_in(condition: Condition) -> Iterator[str]:
    """Yield the names of the figures that a condition compares."""
    for fact in condition.facts():
        if fact.name == "figure":
            yield from (value for value in fact.arguments.values() if isinstance(value, str) and value != START)
