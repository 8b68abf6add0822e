"""Recipes: the work on a workbench as JSON, to keep, send and replay."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fxopt.core import Pass, info_of
from fxopt.errors import expect
from fxopt.recipes.errors import RecipeError
from fxopt.recipes.reading import Part, line_of, parsed, read_bytes, text_of
from fxopt.recipes.replay import Replay, replay
from fxopt.recipes.steps import Step
from fxopt.recipes.values import shown
from fxopt.recipes.versions import versions_here
from fxopt.workbench import Workbench

VERSION = 1
SCHEMA = "urn:fxopt:recipe:1"
"""The ``$id`` of the JSON Schema, which lies beside this file as ``recipe.schema.json``."""

KINDS = ("zoo", "folder", "python", "given")
MOST_STEPS = 1_000
_FINGERPRINTS = ("before", "after")


@dataclass(frozen=True)
class Model:
    """The source of a model, for whoever reads the recipe. A replay is given the model; it never looks one up.

    `kind` is ``zoo`` (`name` is a key of `fxopt.models.ZOO`), ``folder`` (a path, or the id of a Hugging Face model),
    ``python`` (``module:callable`` or ``file.py:callable``), or ``given`` (a model in a script: the name of its class).
    """

    kind: str = "given"
    name: str = ""


@dataclass(frozen=True)
class Recipe:
    """The choices on a workbench as a value: passes with arguments, their sites on and off in order, edits by hand.

    >>> import torch, fxopt
    >>> model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8)).eval()
    >>> wb = fxopt.Workbench(model, (torch.rand(2, 3, 8, 8),))
    >>> wb.turn_on("FuseBatchNorm2dInConv2d")
    >>> text = Recipe.of(wb).to_json()
    >>> other = fxopt.Workbench(model, (torch.rand(2, 3, 8, 8),))
    >>> Recipe.from_json(text).replay(other).is_same
    True
    >>> [node.name for node in other.current.graph.nodes]
    ['input_1', '_0', 'output']
    """

    steps: tuple[Step, ...]
    """In the order in which they run."""
    model: Model = Model()
    batch: int | None = None
    sequence: int | None = None
    """The sizes of the example inputs, where the source of the model draws them by size."""
    inputs: Mapping[str, str] = field(default_factory=dict, hash=False)
    """By name, dtype and sizes of each input in words: ``float32 batch x 3 x 8 x 8``."""
    versions: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Of the libraries that it was made with."""
    before: str = ""
    """The fingerprint of the graph before any pass: the same on every machine (`Workbench.portable_fingerprints`)."""
    after: str = ""
    """The fingerprint of the graph with all that is on."""

    _text: str = field(default="", init=False, repr=False, compare=False)
    """The JSON that it was read from, for the lines of errors that are found later."""
    _file: str = field(default="", init=False, repr=False, compare=False)

    def __repr__(self) -> str:
        on = [step for step in self.steps if step.on]
        told = ", ".join(f"{step.name} at {sum(site.on for site in step.sites)}" for step in on) or "nothing on"
        return f"Recipe(of {self.model.name or self.model.kind}: {told})"

    @classmethod
    def of(
        cls, wb: Workbench, model: Model | None = None, *, batch: int | None = None, sequence: int | None = None
    ) -> Recipe:
        """Return the recipe of a workbench as it is now.

        Args:
            model: the source of the model; the class of the captured one if not given.
            batch, sequence: the sizes that the source drew the example inputs at.

        Raises:
            RecipeError: an argument of a pass or an edit has no form in a recipe, or a pass failed.
        """
        _expect_workbench(wb, "Recipe.of")
        for state in wb.states:
            if state.error:
                raise RecipeError(f"{state.name} failed, so a recipe of this would not replay: {state.error}")
        steps = tuple(
            Step.of(state, choice, ("steps", i)) for i, (state, choice) in enumerate(zip(wb.states, wb.choices))
        )
        return cls(
            steps,
            model or Model("given", str(wb.pristine._get_name())),
            batch,
            sequence,
            _inputs(wb),
            versions_here(),
            *wb.portable_fingerprints(),
        )

    def to_json(self) -> str:
        """Return it as JSON text that follows the JSON Schema."""
        content = {
            "$schema": SCHEMA,
            "fxopt_recipe": VERSION,
            "model": {"kind": self.model.kind, "name": self.model.name},
            "inputs": {"batch": self.batch, "sequence": self.sequence, "tensors": dict(self.inputs)},
            "steps": [step.to_json() for step in self.steps],
            "versions": dict(self.versions),
            "fingerprints": {"before": self.before, "after": self.after},
        }
        return json.dumps(content, indent=1, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Recipe:
        """Return the recipe of its JSON text. Nothing is executed or imported from it.

        Raises:
            RecipeError: the text is no recipe, or one of another version. The error has the path and the line.
        """
        expect(text, str, "Recipe.from_json", "JSON text")
        try:
            found = _read(Part(parsed(text)))
        except RecipeError as error:
            raise error.at(line_of(text, error.steps) if error.steps else None) from None
        object.__setattr__(found, "_text", text)
        return found

    @classmethod
    def from_bytes(cls, content: bytes) -> Recipe:
        """Return the recipe of the bytes of its file, as an upload gives them.

        Raises:
            RecipeError: as for `from_json`, and for bytes that are another kind of file.
        """
        return cls.from_json(text_of(content))

    @classmethod
    def load(cls, file: str | os.PathLike[str]) -> Recipe:
        """Return the recipe in a file.

        Raises:
            RecipeError: the file cannot be read, or is no recipe. The error has file, path and line.
        """
        expect(file, str | os.PathLike, "Recipe.load", "a path")
        try:
            found = cls.from_bytes(read_bytes(Path(file)))
        except RecipeError as error:
            raise error.at(None, os.fspath(file)) from None
        object.__setattr__(found, "_file", os.fspath(file))
        return found

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write it to a file, whole or not at all: an older recipe there stays until the new one is complete.

        Raises:
            RecipeError: the file cannot be written.
        """
        target = Path(file)
        try:
            with tempfile.TemporaryDirectory(dir=target.parent) as folder:
                made = Path(folder) / "recipe.json"
                made.write_text(self.to_json(), encoding="ascii")
                os.replace(made, target)
        except OSError as error:
            raise RecipeError(f"it cannot be written ({error.strerror})", file=str(target)) from None

    def passes(self) -> tuple[Pass[Any], ...]:
        """Return its passes, registered or approximate ones, for a new `Workbench`; edits are none of them.

        Raises:
            RecipeError: fxopt has no such pass, or the pass does not take the arguments. The error has the path, and
                the line and the file that the recipe was read from.
        """
        try:
            return tuple(step.pass_(("steps", i)) for i, step in enumerate(self.steps) if not step.is_edit)
        except RecipeError as error:
            raise error.at(line_of(self._text, error.steps) if self._text else None, self._file) from None

    def replay(self, wb: Workbench, *, strict: bool = True) -> Replay:
        """Bring a workbench to the choices of the recipe, in one step that `undo` takes back.

        On the same model the result has the same fingerprint. On another one, each site, edit or pass of the recipe
        that no longer applies is a problem with its reason; a site that the recipe does not know stays off.

        Args:
            strict: refuse a recipe that has problems here; False applies the rest of it.

        Raises:
            RecipeError: there are problems (`problems`), or the same model came to another result. The workbench is as
                it was.
        """
        _expect_workbench(wb, "Recipe.replay")
        return replay(wb, self.steps, (self.before, self.after), self.versions, strict=strict)


def _expect_workbench(wb: Any, call: str) -> None:
    expect(wb, Workbench, call, "a workbench", "fxopt.Workbench(gm) makes one of a graph module")


def _inputs(wb: Workbench) -> dict[str, str]:
    inputs = [node for node in wb.pristine.graph.nodes if node.op == "placeholder"]
    return {str(node.target): str(info) if (info := info_of(node)) is not None else "" for node in inputs}


def _read(part: Part) -> Recipe:
    if not isinstance(part.value, dict):
        raise part.fail("this is JSON, and a recipe is an object with names and values")
    if "fxopt_recipe" not in part.value:
        raise part.fail("this is JSON, but no recipe of fxopt: 'fxopt_recipe' with the version is missing")
    version = part.value["fxopt_recipe"]
    if type(version) is not int or version != VERSION:
        raise RecipeError(
            f"the version of this recipe is {shown(version)}, and this fxopt reads version {VERSION}"
            + ("; a newer fxopt may read it" if isinstance(version, int) and version > VERSION else ""),
            ("fxopt_recipe",),
        )
    top = part.fields(("fxopt_recipe", "model", "inputs", "steps", "versions", "fingerprints"), ("$schema",))
    model, inputs = top["model"].fields(("kind", "name")), top["inputs"].fields(("batch", "sequence", "tensors"))
    if model["kind"].text() not in KINDS:
        raise model["kind"].fail(f"this is {shown(model['kind'].value)}, and has to be one of {', '.join(KINDS)}")
    fingerprints = top["fingerprints"].fields(_FINGERPRINTS)
    steps = tuple(Step.read(one) for one in top["steps"].items(MOST_STEPS))
    return Recipe(
        steps,
        Model(model["kind"].text(), model["name"].text()),
        inputs["batch"].count(),
        inputs["sequence"].count(),
        {name: one.text() for name, one in inputs["tensors"].table().items()},
        {name: one.text() for name, one in top["versions"].table().items()},
        *(fingerprints[name].text() for name in _FINGERPRINTS),
    )
