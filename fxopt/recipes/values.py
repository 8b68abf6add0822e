"""Arguments of passes and edits as JSON: plain constants, and objects with one key for values that JSON lacks."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx.immutable_collections import immutable_list

from fxopt.recipes.errors import Path, RecipeError

_PLAIN = (bool, int, str, type(None))
_NUMBERS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_DTYPES = {str(one).removeprefix("torch."): one for one in vars(torch).values() if isinstance(one, torch.dtype)}
_KEYS = "tuple, dtype, float or ellipsis"
_DEEPEST = 50


def to_json(value: Any, path: Path = ()) -> Any:
    """Return a constant as JSON.

    It takes the constants that edits take: None, booleans, numbers, text, dtypes, ``...``, lists and tuples of them.

    Raises:
        RecipeError: the value is of another type, and would not come back as it was.

    >>> to_json((1, 2.5, [torch.float16, float("inf")]))
    {'tuple': [1, 2.5, [{'dtype': 'float16'}, {'float': 'inf'}]]}
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is float:
        return value if math.isfinite(value) else {"float": str(value)}
    if kind is torch.dtype:
        return {"dtype": str(value).removeprefix("torch.")}
    if value is ...:
        return {"ellipsis": True}
    if kind in (list, tuple, immutable_list):
        if len(path) > _DEEPEST:
            raise RecipeError(f"its lists are nested more than {_DEEPEST} deep", path)
        parts = [to_json(part, (*path, i)) for i, part in enumerate(value)]
        return {"tuple": parts} if kind is tuple else parts
    raise RecipeError(
        f"a {kind.__module__}.{kind.__qualname__} has no form in a recipe; "
        "it holds None, booleans, numbers, text, dtypes, and lists and tuples of them",
        path,
    )


def from_json(value: Any, path: Path = ()) -> Any:
    """Return the constant of its JSON.

    Raises:
        RecipeError: it is none; the error has the path.

    >>> from_json({"tuple": [1, {"dtype": "float16"}, {"float": "-inf"}]})
    (1, torch.float16, -inf)
    """
    if isinstance(value, (*_PLAIN, float)):
        return value
    if len(path) > _DEEPEST:
        raise RecipeError(f"its lists are nested more than {_DEEPEST} deep", path)
    if isinstance(value, list):
        return [from_json(part, (*path, i)) for i, part in enumerate(value)]
    if not isinstance(value, dict) or len(value) != 1:
        raise RecipeError(f"an object here has one key: {_KEYS}", path)
    ((key, inner),) = value.items()
    if key == "tuple" and isinstance(inner, list):
        return tuple(from_json(part, (*path, key, i)) for i, part in enumerate(inner))
    if key == "float" and isinstance(inner, str) and inner in _NUMBERS:
        return _NUMBERS[inner]
    if key == "ellipsis" and inner is True:
        return ...
    if key == "dtype":
        if not isinstance(inner, str) or inner not in _DTYPES:
            raise RecipeError(f"torch {torch.__version__} has no dtype {shown(inner)}", (*path, key))
        return _DTYPES[inner]
    raise RecipeError(f"{shown(value)} is no constant; an object here has one key: {_KEYS}", path)


def shown(value: Any) -> str:
    """Return a value from a file as a few characters, for a message."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
