"""Settings in YAML as checked values: each error names the line, and nothing in them is evaluated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import yaml

from fxopt.lessons.errors import LessonError, unknown

_DEEPEST = 20
_MOST_CHARACTERS = 100_000
_MOST_DIGITS = 15


def settings_of(text: str, line: int) -> Setting:
    """Return the settings of a text in YAML that stands at this line of its file, counted from 1.

    Raises:
        LessonError: it is no YAML, or has tags or anchors, which settings do without.
    """
    if len(text) > _MOST_CHARACTERS:
        raise LessonError(f"these settings have {len(text):,} characters, and may have {_MOST_CHARACTERS:,}", line)
    try:
        depth = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:
                raise LessonError(f"these settings are nested more than {_DEEPEST} deep", line + event.start_mark.line)
            if getattr(event, "tag", None) is not None:
                told = f"settings have no tags ({event.tag}); quote the text"
                raise LessonError(told, line + event.start_mark.line)
            if getattr(event, "anchor", None) is not None:
                told = "settings have no anchors (&name) and aliases (*name); quote the text"
                raise LessonError(told, line + event.start_mark.line)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise LessonError(f"this is no YAML: {error.problem}", line + (mark.line if mark else 0)) from None
    except yaml.YAMLError as error:
        raise LessonError(f"this is no YAML: {str(error).splitlines()[0]}", line) from None
    if node is None:
        raise LessonError("there are no settings here", line)
    return Setting(node, line)


@dataclass(frozen=True, eq=False)
class Setting:
    """A value among the settings, and its line; each question returns a checked value, or raises a `LessonError`."""

    node: Any
    first: int
    """The line of the file at which the YAML begins."""

    @cached_property
    def line(self) -> int:
        return self.first + int(self.node.start_mark.line)

    def fail(self, reason: str) -> LessonError:
        return LessonError(reason, self.line)

    @property
    def is_table(self) -> bool:
        return isinstance(self.node, yaml.MappingNode)

    @property
    def is_list(self) -> bool:
        return isinstance(self.node, yaml.SequenceNode)

    def text(self) -> str:
        if not isinstance(self.node, yaml.ScalarNode):
            raise self.fail(f"this is {self._kind}, and has to be a text")
        if not self.node.value.strip():
            raise self.fail("this text is empty")
        return str(self.node.value)

    def number(self) -> float:
        text = self.text()
        try:
            number = float(text)
        except ValueError:
            raise self.fail(f"this is {text!r}, and has to be a number") from None
        if not math.isfinite(number):
            raise self.fail("this number is not finite")
        return number

    def count(self) -> int:
        text = self.text()
        if not text.isdecimal():
            raise self.fail(f"this is {text!r}, and has to be a whole number from 0")
        if len(text) > _MOST_DIGITS:
            raise self.fail(f"this number has {len(text):,} digits, and may have {_MOST_DIGITS}")
        return int(text)

    def true(self) -> None:
        if self.text() != "true":
            raise self.fail(f"this is {self.text()!r}, and has to be true; for the opposite write {{not: ...}}")

    def one_of(self, kind: str, names: Sequence[str]) -> str:
        text = self.text()
        if text not in names:
            raise self.fail(unknown(kind, text, names))
        return text

    def items(self) -> list[Setting]:
        if not self.is_list:
            raise self.fail(f"this is {self._kind}, and has to be a list")
        return [self._inside(one) for one in self.node.value]

    def one_or_more(self) -> list[Setting]:
        """Return the items of a list; a single value is a list of one."""
        return self.items() if self.is_list else [self]

    def table(self) -> dict[str, Setting]:
        """Return the members of a table, by name."""
        if not self.is_table:
            raise self.fail(f"this is {self._kind}, and has to be a table of names and values")
        found: dict[str, Setting] = {}
        for key, value in self.node.value:
            name = self._inside(key).text()
            if name in found:
                raise self._inside(key).fail(f"{name!r} stands here twice; leave one out")
            found[name] = self._inside(value)
        return found

    def fields(self, needed: Sequence[str], others: Sequence[str] = ()) -> dict[str, Setting]:
        """Return the members of a table that has the `needed` names, and no other than `others`."""
        found = self.table()
        for name, value in found.items():
            if name not in needed and name not in others:
                raise value.fail(unknown("setting", name, (*needed, *others)))
        for name in needed:
            if name not in found:
                raise self.fail(f"{name!r} is missing here")
        return found

    def plain(self) -> Any:
        """Return it as plain data."""
        try:
            return yaml.SafeLoader("").construct_document(self.node)
        except yaml.YAMLError as error:
            raise self.fail(f"this is no plain data: {getattr(error, 'problem', error)}") from None
        except (ValueError, OverflowError) as error:  # of a date that is none, and of thousands of digits
            raise self.fail(f"this has a number or a date that cannot be read ({error}); quote a text") from None

    @property
    def _kind(self) -> str:
        return "a list" if self.is_list else "a table" if self.is_table else f"the text {self.node.value!r}"

    def _inside(self, node: Any) -> Setting:
        return Setting(node, self.first)
