"""The steps of a recipe, and their passes and edits, which are looked up by name in the registries alone."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fxopt.core import Pass
from fxopt.edits import ALL_EDITS, Edit
from fxopt.errors import did_you_mean
from fxopt.passes import APPROXIMATE_PASSES, registered_passes
from fxopt.recipes.errors import Path, RecipeError
from fxopt.recipes.reading import Part
from fxopt.recipes.values import from_json, shown, to_json
from fxopt.workbench import Choice, PassState

_EDITS: Mapping[str, type[Edit]] = {kind.__name__: kind for kind in ALL_EDITS}
_TYPES = {"str": str, "int": int, "bool": bool}
MOST_SITES = 100_000


@dataclass(frozen=True)
class SiteChoice:
    """A site by the name of its anchor node, on or off."""

    site: str
    on: bool


@dataclass(frozen=True)
class Step:
    """A pass or an edit by hand, and its sites that are on or were left out, in the order of the graph."""

    name: str
    """The name of the class."""
    arguments: Mapping[str, Any]
    """Of the pass or edit, by name."""
    on: bool
    sites: tuple[SiteChoice, ...] = ()
    is_edit: bool = False

    @property
    def sites_on(self) -> frozenset[str]:
        return frozenset(one.site for one in self.sites if one.on)

    @property
    def without(self) -> frozenset[str]:
        return frozenset(one.site for one in self.sites if not one.on)

    @classmethod
    def of(cls, state: PassState, choice: Choice, path: Path = ()) -> Step:
        """Return the step of a pass or edit on a workbench.

        Raises:
            RecipeError: an argument has no form in a recipe.
        """
        sites = [SiteChoice(one.site, one.on) for one in state.sites if one.on or one.site in choice.without]
        known = {one.site for one in sites}
        sites += [SiteChoice(name, False) for name in sorted(choice.without - known)]
        pass_ = state.pass_
        arguments = arguments_of(pass_)
        for name, value in arguments.items():
            to_json(value, (*path, "arguments", name))
        return cls(kind_name(pass_), arguments, choice.on, tuple(sites), isinstance(pass_, Edit))

    def to_json(self) -> dict[str, Any]:
        return {
            "edit" if self.is_edit else "pass": self.name,
            "arguments": {name: to_json(value, ("arguments", name)) for name, value in self.arguments.items()},
            "on": self.on,
            "sites": [{"site": one.site, "on": one.on} for one in self.sites],
        }

    @classmethod
    def read(cls, part: Part) -> Step:
        """Return the step of its JSON.

        Raises:
            RecipeError: it is none, or names an unknown edit; the error has the path.
        """
        is_edit = "edit" in part.table()
        kind = "edit" if is_edit else "pass"
        fields = part.fields((kind, "arguments", "on", "sites"))
        sites = tuple(_site(one) for one in fields["sites"].items(MOST_SITES))
        arguments = {name: from_json(one.value, one.path) for name, one in fields["arguments"].table().items()}
        step = cls(fields[kind].text(), arguments, fields["on"].flag(), sites, is_edit)
        if is_edit:
            step.edit(part.path)
        return step

    def edit(self, path: Path = ()) -> Edit:
        """Return the edit by hand.

        Raises:
            RecipeError: fxopt has no such edit, or the arguments are not its own.
        """
        kind = _EDITS.get(self.name)
        if kind is None:
            raise RecipeError(f"fxopt has no edit {shown(self.name)}; it has {', '.join(_EDITS)}", (*path, "edit"))
        fields = {field.name: field for field in dataclasses.fields(kind) if field.init}
        inside = (*path, "arguments")
        for name, value in self.arguments.items():
            if name not in fields:
                raise RecipeError(f"{self.name} takes no {shown(name)}; it takes {', '.join(fields)}", (*inside, name))
            needed = _TYPES.get(str(fields[name].type))
            if needed is not None and type(value) is not needed:
                raise RecipeError(f"this is {shown(value)}, and {name} of {self.name} is a {needed.__name__}",
                                  (*inside, name))  # fmt: skip
        missing = dataclasses.MISSING
        for name, field in fields.items():
            if name not in self.arguments and field.default is missing and field.default_factory is missing:
                raise RecipeError(f"{self.name} needs {name!r}, which is missing here", inside)
        return kind(**self.arguments)

    def pass_(self, path: Path = ()) -> Pass[Any]:
        """Return the pass out of `fxopt.registered_passes()`, or an approximate one.

        Raises:
            RecipeError: it is not there, or does not take the arguments.
        """
        known = {one.__name__: one for one in (*registered_passes(), *APPROXIMATE_PASSES)}
        kind = known.get(self.name)
        if kind is None:
            there = f"it has {', '.join(known)}.{did_you_mean(self.name, known)}"
            raise RecipeError(f"fxopt has no pass {shown(self.name)}; {there}", (*path, "pass"))
        takes = _parameters(kind)
        unknown = next((name for name in self.arguments if name not in takes), None)
        if unknown is not None:
            raise RecipeError(f"{self.name} takes no {shown(unknown)}; it takes {', '.join(takes) or 'no argument'}",
                              (*path, "arguments", unknown))  # fmt: skip
        try:
            return kind(**self.arguments)
        except (TypeError, ValueError) as error:
            raise RecipeError(f"{self.name} cannot be made: {error}", (*path, "arguments")) from None


def _site(part: Part) -> SiteChoice:
    fields = part.fields(("site", "on"))
    return SiteChoice(fields["site"].text(), fields["on"].flag())


def kind_name(pass_: Pass[Any]) -> str:
    """Return the name of a pass or edit in a recipe: its class; of a rule, which has a class of its own, its name."""
    return type(pass_).__name__ if isinstance(pass_, Edit) else pass_.name


def arguments_of(pass_: Pass[Any]) -> dict[str, Any]:
    """Return the arguments that a pass or edit was made with, less those of an edit that have their default."""
    if isinstance(pass_, Edit):
        fields = [field for field in dataclasses.fields(pass_) if field.init]
        return {f.name: value for f in fields if (value := getattr(pass_, f.name)) is not f.default}
    return {name: getattr(pass_, name) for name in _parameters(type(pass_)) if hasattr(pass_, name)}


def _parameters(kind: type[Pass[Any]]) -> tuple[str, ...]:
    if kind.__init__ is object.__init__:
        return ()
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return tuple(name for name, one in inspect.signature(kind).parameters.items() if one.kind in named)
