"""First looks at a config.json: numbers beyond any model with the weights beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from typing import Any

from fxopt.errors import ModelError

_COUNTS_LAYERS = re.compile(r"(^|_)(num|n)_(\w+_)?(layers?|blocks?)$|(^|_)(layers|depth)$")
_NAMES_NO_SIZE = re.compile(r"(vocab_size|theta|_ids?|base)$")
_ORDINARY = 1_000_000
"""Up to this size, building on the meta device takes a negligible time."""
_ORDINARY_TABLE = 2 * 10**7
"""Up to so many numbers, a table that an architecture computes in Python (the positions of Pegasus) takes seconds."""
_DEEP = 60
_LONG = 10_000
"""Parts of a list or object in a config."""


def check_layers(config: dict[str, Any], weights: int) -> None:
    """Raise a `ModelError` where a config counts far more layers than there are weights.

    Layers may share weights (ALBERT), so there may be more of them.
    """
    for name, value in _numbers(config):
        if _COUNTS_LAYERS.search(name) and value > 10 * weights + 1_000:
            raise ModelError(f"config.json says {name} = {value:,}, but there are only {weights:,} stored weights")


def is_ordinary(config: Any) -> bool:
    """Return whether all sizes of a config are small enough to build from it here, at least on the meta device."""
    sizes = sorted((abs(value) for name, value in _numbers(config) if not _NAMES_NO_SIZE.search(name)), reverse=True)
    if any(size > _ORDINARY for size in sizes) or prod(sizes[:2]) > _ORDINARY_TABLE:
        return False
    return all(length <= _LONG for length in _lengths(config))


def is_deep(config: Any) -> bool:
    """Return whether its lists and objects are nested deeper than a recursive reader of configs can follow."""
    level = [config]
    for _ in range(_DEEP):
        level = [each for part in level for each in _parts(part)]
    return bool(level)


def _parts(config: Any) -> list[Any]:
    return list(config.values()) if isinstance(config, dict) else config if isinstance(config, list) else []


def _numbers(config: Any, name: str = "") -> Iterator[tuple[str, int | float]]:
    if isinstance(config, dict):
        for key, value in config.items():
            yield from _numbers(value, str(key))
    elif isinstance(config, list):
        for value in config:
            yield from _numbers(value, name)
    elif isinstance(config, (int, float)) and not isinstance(config, bool):
        yield name, config


def _lengths(config: Any) -> Iterator[int]:
    if isinstance(config, (dict, list)):
        yield len(config)
        for value in _parts(config):
            yield from _lengths(value)
