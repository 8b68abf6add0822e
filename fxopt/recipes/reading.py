"""JSON text as checked values: each error names the path, and the line of the file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path as File
from typing import Any

from fxopt.recipes.errors import Path, RecipeError
from fxopt.recipes.values import shown

MOST_BYTES = 8 * 2**20
"""Bytes of a recipe. One with every site of a large model has some hundred thousand."""

_OTHERS = {
    b"PK\x03\x04": "a zip archive, as .pt2 and .pt files are",
    b"\x80\x02": "a Python pickle",
    b"\x80\x04": "a Python pickle",
    b"\x89PNG": "a PNG picture",
    b"%PDF": "a PDF",
    b"\x1f\x8b": "a gzip archive",
}


def read_bytes(file: File) -> bytes:
    """Return the bytes of a file that may be a recipe.

    Raises:
        RecipeError: it cannot be read, or is too large.
    """
    try:
        if file.is_dir():
            raise RecipeError("this is a folder; give the JSON file of a recipe", file=str(file))
        size = file.stat().st_size
        if size > MOST_BYTES:
            raise RecipeError(f"it has {size:,} bytes, and a recipe has at most {MOST_BYTES:,}", file=str(file))
        return file.read_bytes()
    except (OSError, ValueError) as error:  # a path with a NUL character is a ValueError
        if isinstance(error, RecipeError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise RecipeError(f"it cannot be read ({reason})", file=str(file)) from None


def text_of(content: bytes) -> str:
    """Return the text of a file.

    Raises:
        RecipeError: it is no UTF-8 text.
    """
    if len(content) > MOST_BYTES:
        raise RecipeError(f"it has {len(content):,} bytes, and a recipe has at most {MOST_BYTES:,}")
    other = next((words for start, words in _OTHERS.items() if content.startswith(start)), None)
    if other is None and len(content) > 8 and content[8:10] == b'{"' and not content[:1].isspace():
        other = "a safetensors file"
    if other is not None:
        raise RecipeError(f"this is {other}; a recipe is a JSON file that fxopt saved")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise RecipeError("this is no UTF-8 text; a recipe is a JSON file that fxopt saved", line=line) from None


def parsed(text: str) -> Any:
    """Return the JSON of a text; names that come twice and numbers that JSON lacks are refused.

    Raises:
        RecipeError: it is no JSON; the error has the line.
    """
    if not text.strip():
        raise RecipeError("the file is empty; a recipe is a JSON file that fxopt saved")
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        reason = f"this is no JSON: {error.msg[:1].lower()}{error.msg[1:]} at column {error.colno}"
        raise RecipeError(reason, line=error.lineno) from None
    except RecursionError:
        raise RecipeError("its lists and objects are nested too deeply to be read") from None
    except ValueError as error:
        if isinstance(error, RecipeError):
            raise
        raise RecipeError(f"this cannot be read as JSON: {error}") from None


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise RecipeError(f"an object has {shown(twice)} twice; leave one out")
    return found


def _no_number(text: str) -> Any:
    raise RecipeError(f'{text} is no number of JSON; a recipe writes {{"float": "inf"}}, "-inf" or "nan"')


@dataclass(frozen=True, eq=False)
class Part:
    """A value in the JSON and its path; each question returns a checked value, or raises a `RecipeError`."""

    value: Any
    path: Path = ()

    def fail(self, reason: str) -> RecipeError:
        return RecipeError(reason, self.path)

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.fail(f"this is {shown(self.value)}, and has to be text")
        return self.value

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.fail(f"this is {shown(self.value)}, and has to be true or false")
        return self.value

    def count(self) -> int | None:
        is_count = isinstance(self.value, int) and not isinstance(self.value, bool) and self.value > 0
        if self.value is not None and not is_count:
            raise self.fail(f"this is {shown(self.value)}, and has to be a whole number from 1, or null")
        return self.value

    def items(self, most: int) -> Iterator[Part]:
        if not isinstance(self.value, list):
            raise self.fail(f"this is {shown(self.value)}, and has to be a list")
        if len(self.value) > most:
            raise self.fail(f"this list has {len(self.value):,} items, and may have {most:,}")
        return (Part(value, (*self.path, i)) for i, value in enumerate(self.value))

    def fields(self, needed: Sequence[str], others: Sequence[str] = ()) -> dict[str, Part]:
        """Return the parts of an object that has the `needed` keys, and no other than `others`."""
        found = self.table()
        for name in needed:
            if name not in found:
                raise self.fail(f"{name!r} is missing here")
        for name in found:
            if name not in needed and name not in others:
                raise RecipeError(f"fxopt knows no {shown(name)} here; it knows {', '.join((*needed, *others))}",
                                  (*self.path, name))  # fmt: skip
        return found

    def table(self) -> dict[str, Part]:
        """Return the parts of an object with any keys."""
        if not isinstance(self.value, dict):
            raise self.fail(f"this is {shown(self.value)}, and has to be an object with names and values")
        return {name: Part(value, (*self.path, name)) for name, value in self.value.items()}


def line_of(text: str, path: Path) -> int:
    """Return the line, counted from 1, of the value at a path in a text that is valid JSON.

    A path that the text lacks gives the line of the last part of it that is there.

    >>> line_of('{\\n"a": 1,\\n"b": [\\n2,\\n3]\\n}', ("b", 1))
    5
    """
    decoder = json.JSONDecoder()
    at = _skip(text, 0)
    for step in path:
        found = _member(text, at, step, decoder)
        if found is None:
            break
        at = found
    return text.count("\n", 0, at) + 1


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n,:":
        at += 1
    return at


def _member(text: str, at: int, step: str | int, decoder: json.JSONDecoder) -> int | None:
    """Return the offset of a member of the object or list at `at`; None if it has no such member."""
    is_object = text[at] == "{"
    if text[at] not in "{[" or is_object != isinstance(step, str):
        return None
    at, number = _skip(text, at + 1), 0
    while text[at] not in "}]":
        key: str | int = number
        if is_object:
            key, end = decoder.raw_decode(text, at)
            at = _skip(text, end)
        if key == step:
            return at
        _, end = decoder.raw_decode(text, at)
        at, number = _skip(text, end), number + 1
    return None
