"""The state of the workbench that a lesson, or a step of it, begins with: a model, and a recipe."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from fxopt.edits import Edit
from fxopt.errors import FxoptError
from fxopt.lessons.acts import edit_of
from fxopt.lessons.errors import LessonError, unknown
from fxopt.lessons.settings import Setting
from fxopt.lessons.vocabulary import Known
from fxopt.recipes import Recipe, RecipeError
from fxopt.workbench import Workbench

ALL = "all"


@dataclass(frozen=True)
class Needs:
    """A model of the zoo at sizes, with passes or a whole recipe on it; without either, the original graph."""

    model: str
    batch: int | None = None
    sequence: int | None = None
    on: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict, hash=False)
    """The sites by pass that are on; None is all that the pass has."""
    edits: tuple[Edit, ...] = ()
    """The edits by hand, made after the passes."""
    recipe: Recipe | None = field(default=None, hash=False)
    line: int | None = field(default=None, compare=False)

    def begin(self, wb: Workbench) -> None:
        """Bring a workbench with this model to this state, in one step that `undo` takes back.

        Raises:
            LessonError: a pass or site does not apply to the model; the workbench is as it was.
        """
        trial = wb.another()
        try:
            if self.recipe is not None:
                self.recipe.replay(trial)
            for name, sites in self.on.items():
                trial.turn_on(name, sites)
            for edit in self.edits:
                trial.edit(edit)
            wb.choose(trial.choices, trial.edits)
        except FxoptError as error:
            raise LessonError(f"the state that this begins with cannot be made: {error}", self.line) from error


def needs_of(value: Setting, known: Known) -> Needs:
    """Return the state that settings describe.

    They have ``model``, and ``batch`` and ``sequence`` where they are other than the default. Then either ``on``, a
    table of passes with the list of their sites, or ``all`` of them, and ``edits``, a list; or ``recipe``, a whole
    recipe as the page saves it.

    Raises:
        LessonError: they describe none; the error has the line.
    """
    fields = value.fields(("model",), ("batch", "sequence", "on", "edits", "recipe"))
    batch, sequence = (fields[name].count() if name in fields else None for name in ("batch", "sequence"))
    if "recipe" in fields and fields.keys() & {"on", "edits"}:
        raise value.fail("'recipe' gives all passes and edits; leave out 'on' and 'edits', or the recipe")
    on = {name: _sites(name, one, known) for name, one in fields["on"].table().items()} if "on" in fields else {}
    edits = tuple(edit_of(one) for one in fields["edits"].items()) if "edits" in fields else ()
    recipe = _whole(fields["recipe"]) if "recipe" in fields else None
    return Needs(fields["model"].text(), batch, sequence, on, edits, recipe, value.line)


def _sites(name: str, value: Setting, known: Known) -> tuple[str, ...] | None:
    if name not in known.passes:
        raise value.fail(unknown("pass", name, known.passes))
    if not value.is_list and value.text() == ALL:
        return None
    return tuple(one.text() for one in value.items())


def _whole(value: Setting) -> Recipe:
    try:
        return Recipe.from_json(json.dumps(value.plain()))
    except TypeError as error:
        raise value.fail(f"this is no recipe: {error}") from None
    except RecipeError as error:
        raise value.fail(f"this is no recipe: {error.path + ': ' if error.path else ''}{error.reason}") from None
