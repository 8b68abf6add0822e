"""Outcomes of acts that the page shows beside the place of the act."""

from __future__ import annotations

from dataclasses import dataclass

from fxopt.edits import Edit
from fxopt.errors import FxoptError
from fxopt.recipes import Recipe, RecipeError, Replay


@dataclass(frozen=True, eq=False)
class EditOutcome:
    """The outcome of the edits that were last asked for at a node."""

    node: str
    made: tuple[Edit, ...] = ()
    refusal: FxoptError | None = None
    """The reason why the next one was refused."""
    from_graph: bool = False
    """Whether it was asked for in the graph, rather than in the form: it is told above the form, where it is seen."""


@dataclass(frozen=True, eq=False)
class RecipeOutcome:
    """The outcome of the last upload of a recipe: the replay, or the refusal."""

    file: str
    content: bytes
    recipe: Recipe | None
    found: Replay | None = None
    refusal: RecipeError | None = None
