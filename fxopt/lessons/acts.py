"""Acts of a learner as data: the solution of a step, which a check walks. The page never does them for the learner."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fxopt.edits import Edit
from fxopt.lessons.errors import LessonError, unknown
from fxopt.lessons.facts import TABS, VIEWS
from fxopt.lessons.settings import Setting
from fxopt.lessons.vocabulary import Known, read_site, read_true
from fxopt.recipes import RecipeError, Step
from fxopt.recipes.reading import Part


@dataclass(frozen=True)
class Act:
    """One act: its name, and the thing it is done to."""

    name: str
    what: Mapping[str, Any] = field(hash=False)
    line: int = field(compare=False, default=0)


def _switch(value: Setting, known: Known) -> Mapping[str, Any]:
    if value.is_list:
        return read_site(value, known)
    return {"pass": value.one_of("pass", known.passes), "node": None}


def edit_of(value: Setting) -> Edit:
    """Return the edit by hand that settings describe, as in a recipe: ``{edit: Delete, arguments: {node: relu}}``.

    Raises:
        LessonError: there is no such edit, or the arguments are not its own.
    """
    fields = value.fields(("edit", "arguments"))
    step = {**{name: one.plain() for name, one in fields.items()}, "on": True, "sites": []}
    try:
        return Step.read(Part(json.loads(json.dumps(step)))).edit()
    except (RecipeError, TypeError) as error:
        raise value.fail(f"this is no edit: {getattr(error, 'reason', error)}") from None


WRITE = "write"
"""The act that gives the tab "Your rule" a text."""

_READ: Mapping[str, Callable[[Setting, Known], Mapping[str, Any]]] = {
    "turn_on": _switch,
    "turn_off": _switch,
    "select": lambda value, known: {"is": value.text()},
    "focus": lambda value, known: {"is": value.one_of("pass", known.passes)},
    "view": lambda value, known: {"is": value.one_of("view", VIEWS)},
    "tab": lambda value, known: {"is": value.one_of("tab", TABS)},
    "compare": read_true,
    "measure": read_true,
    "undo": read_true,
    "redo": read_true,
    "reverse_all": read_true,
    WRITE: lambda value, known: {"is": value.text()},
    "check_rule": read_true,
    "edit": lambda value, known: {"edit": edit_of(value)},
    "edit_off": lambda value, known: {"is": value.text()},
}

ACTS = tuple(_READ)
"""The names of the acts."""


def act_of(value: Setting, known: Known) -> Act:
    """Return the act that a setting describes.

    Raises:
        LessonError: there is none of this name, or not with this value.
    """
    table = value.table()
    if len(table) != 1:
        raise value.fail(f"an act has one name, and this has {len(table)}; write several as a list")
    ((name, inner),) = table.items()
    if name not in _READ:
        raise LessonError(unknown("act", name, ACTS), value.line)
    return Act(name, _READ[name](inner, known), value.line)
