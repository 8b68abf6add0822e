"""Broken recipes and other files: each ends in a `RecipeError` that names the path, and the line."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fxopt import Recipe, RecipeError, Workbench
from fxopt.edits import ALL_EDITS, Insert, SetArgument
from fxopt.recipes import recipe as recipe_module
from tests.edits.model import small

SCHEMA = json.loads((Path(recipe_module.__file__).parent / "recipe.schema.json").read_text())


def _content() -> dict[str, Any]:
    wb = Workbench(small())
    wb.turn_on("MergeLinears")
    wb.edit(SetArgument("truediv", "args[1]", 2.0))
    wb.edit(Insert("mean", "ReLU"))
    found: dict[str, Any] = json.loads(Recipe.of(wb, batch=5).to_json())
    return found


CONTENT = _content()
CHECK = jsonschema.Draft202012Validator(SCHEMA)


def test_the_schema_is_one_and_is_the_one_that_recipes_name() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$id"] == recipe_module.SCHEMA == CONTENT["$schema"]
    CHECK.validate(CONTENT)
    assert SCHEMA["$defs"]["edit"]["properties"]["edit"]["enum"] == [kind.__name__ for kind in ALL_EDITS]
    assert SCHEMA["properties"]["steps"]["maxItems"] == recipe_module.MOST_STEPS
    assert SCHEMA["properties"]["model"]["properties"]["kind"]["enum"] == list(recipe_module.KINDS)


def changed(path: tuple[str | int, ...], value: Any) -> str:
    content = copy.deepcopy(CONTENT)
    place: Any = content
    for step in path[:-1]:
        place = place[step]
    if value is DELETED:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return json.dumps(content, indent=1)


DELETED = object()
EDIT = next(i for i, step in enumerate(CONTENT["steps"]) if "edit" in step)
MERGE = next(i for i, step in enumerate(CONTENT["steps"]) if step.get("pass") == "MergeLinears")


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("fxopt_recipe",), 2, r"line 3, fxopt_recipe: the version of this recipe is 2, and .* a newer fxopt may"),
        (("fxopt_recipe",), "1", r"fxopt_recipe: the version of this recipe is '1'"),
        (("fxopt_recipe",), DELETED, r"^this is JSON, but no recipe of fxopt"),
        (("steps",), {}, r"line \d+, steps: this is {}, and has to be a list"),
        (("steps", 0, "on"), 1, r"steps\[0\]\.on: this is 1, and has to be true or false"),
        (("steps", 0, "sites"), DELETED, r"steps\[0\]: 'sites' is missing here"),
        (("steps", 0, "code"), "import os", r"steps\[0\]\.code: fxopt knows no 'code' here"),
        (
            ("steps", MERGE, "sites", 0, "site"),
            None,
            r"steps\[\d\]\.sites\[0\]\.site: this is None, and has to be text",
        ),
        (("steps", EDIT, "edit"), "os.system", r"\.edit: fxopt has no edit 'os\.system'; it has Delete"),
        (("steps", EDIT, "edit"), "Edit", r"fxopt has no edit 'Edit'"),
        (("steps", EDIT, "arguments", "value"), {"dtype": "float7"}, r"arguments\.value\.dtype: torch .* has no dtype"),
        (("steps", EDIT, "arguments", "value"), {"call": "f"}, r"value: {'call': 'f'} is no constant"),
        (("steps", EDIT, "arguments", "node"), 3, r"arguments\.node: this is 3, and node of SetArgument is a str"),
        (("steps", EDIT, "arguments", "turn"), True, r"arguments\.turn: this is True, and turn of .* is a int"),
        (("steps", EDIT, "arguments", "nodes"), "x", r"SetArgument takes no 'nodes'; it takes node"),
        (("steps", EDIT, "arguments", "at"), DELETED, r"arguments: SetArgument needs 'at', which is missing here"),
        (("model", "kind"), "pickle", r"model\.kind: this is 'pickle', and has to be one of zoo, folder"),
        (("inputs", "batch"), 0, r"inputs\.batch: this is 0, and has to be a whole number from 1"),
        (("inputs", "tensors"), [], r"inputs\.tensors: this is \[\], and has to be an object"),
        (("fingerprints", "after"), 3, r"fingerprints\.after: this is 3, and has to be text"),
    ],
)
def test_a_wrong_value_is_refused_with_its_path_and_line(path: tuple[str | int, ...], value: Any, told: str) -> None:
    with pytest.raises(RecipeError, match=told) as refused:
        Recipe.from_json(changed(path, value))
    if refused.value.path:
        assert refused.value.line is not None


def test_the_line_is_that_of_the_value() -> None:
    text = changed(("steps", EDIT, "arguments", "node"), 3)
    with pytest.raises(RecipeError) as refused:
        Recipe.from_json(text)
    assert text.splitlines()[(refused.value.line or 0) - 1].strip().startswith('"node": 3')


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "the file is empty"),
        (b"  \n", "the file is empty"),
        (b"[1, 2]", "this is JSON, and a recipe is an object"),
        (b"{}", "no recipe of fxopt"),
        (b'{\n "a": 1,\n "b" 2}', r"^line 3: this is no JSON: expecting ':' delimiter at column 6"),
        (b'{"a": NaN}', "NaN is no number of JSON"),
        (b'{"a": 1, "a": 2}', "has 'a' twice"),
        (b'{"a": ' + b"1" * 5000 + b"}", "cannot be read as JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"\xff\xfe{", "no UTF-8 text"),
        (b"PK\x03\x04rest", "a zip archive, as .pt2 and .pt files are"),
        (b"\x80\x02}q\x00", "a Python pickle"),
        (b'\x10\x00\x00\x00\x00\x00\x00\x00{"a": {}}      ', "a safetensors file"),
        (b"import os\nos.system('x')", "this is no JSON: expecting value"),
    ],
)
def test_another_file_is_refused_kindly(tmp_path: Path, content: bytes, told: str) -> None:
    with pytest.raises(RecipeError, match=told):
        Recipe.from_bytes(content)
    file = tmp_path / "file.json"
    file.write_bytes(content)
    with pytest.raises(RecipeError) as refused:
        Recipe.load(file)
    assert str(refused.value).startswith(str(file))


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RecipeError, match="No such file"):
        Recipe.load(tmp_path / "nowhere.json")
    with pytest.raises(RecipeError, match="this is a folder"):
        Recipe.load(tmp_path)
    with pytest.raises(RecipeError, match="it cannot be read"):
        Recipe.load("a\0b")
    monkeypatch.setattr("fxopt.recipes.reading.MOST_BYTES", 100)
    (tmp_path / "large.json").write_text(json.dumps(CONTENT))
    with pytest.raises(RecipeError, match="a recipe has at most 100"):
        Recipe.load(tmp_path / "large.json")


def test_an_unknown_pass_is_a_problem_of_the_replay_and_never_imported() -> None:
    recipe = Recipe.from_json(changed(("steps", MERGE, "pass"), "os.system"))
    with pytest.raises(RecipeError, match="no such pass with these arguments"):
        recipe.replay(Workbench(small()))
    with pytest.raises(RecipeError, match=r"steps\[\d\]\.pass: fxopt has no pass 'os\.system'; it has CopyShared"):
        recipe.passes()
    recipe = Recipe.from_json(changed(("steps", MERGE, "arguments"), {"keep": "copy", "file": "x"}))
    with pytest.raises(RecipeError, match="MergeLinears takes no 'file'; it takes keep"):
        recipe.passes()


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["tuple", "dtype", "x"]), inner),
    max_leaves=6,
)


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found += places(inner, (*path, key))
    return found


PLACES = places(CONTENT)


@pytest.mark.slow
@given(st.sampled_from(PLACES), st.just(DELETED) | ANY)
@settings(max_examples=600)
def test_a_recipe_with_any_value_in_any_place_is_read_as_the_schema_says_or_refused(
    path: tuple[str | int, ...], value: Any
) -> None:
    text = changed(path, value)
    try:
        Recipe.from_json(text)
    except RecipeError:
        is_arguments = "arguments" in path  # the arguments that an edit takes are no matter of the schema
        assert is_arguments or not CHECK.is_valid(json.loads(text)), path
    else:
        CHECK.validate(json.loads(text))


def holder_of(content: Any, path: Sequence[Any]) -> Any:
    """The part of `content` that holds a place; None where an earlier change took the place away."""
    for step in path:
        there = isinstance(content, list) and isinstance(step, int) and step < len(content)
        if not there and not (isinstance(content, dict) and step in content):
            return None
        holder, content = content, content[step]
    return holder


@pytest.mark.slow
@given(st.data())
@settings(max_examples=400)
def test_a_broken_recipe_that_can_be_read_is_replayed_or_refused(data: st.DataObject) -> None:
    content = copy.deepcopy(CONTENT)
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from([path for path in PLACES if path[0] == "steps"]))
        holder = holder_of(content, path)
        if holder is not None:
            holder[path[-1]] = data.draw(ANY)
    wb = Workbench(small())
    try:
        Recipe.from_json(json.dumps(content)).replay(wb, strict=data.draw(st.booleans()))
    except RecipeError:
        assert not wb.can_undo
    wb.reverse_all()
    assert wb.is_restored


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
@settings(max_examples=25)
def test_any_bytes_end_in_the_one_error(content: bytes) -> None:
    with pytest.raises(RecipeError):
        Recipe.from_bytes(content)
