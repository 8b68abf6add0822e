"""Parameters of a test, most of which run among the slow tests alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest


def quick(values: Iterable[Any], *representatives: Any) -> list[Any]:
    """Return the values as parameters of a test, slow but for the representatives."""
    return [value if value in representatives else pytest.param(value, marks=pytest.mark.slow) for value in values]


def one_of_four(*lists: Iterable[Any]) -> list[Any]:
    """Return all combinations as parameters of a test, three of four of them slow: each value is in some quick ones."""
    combinations = itertools.product(*(enumerate(values) for values in lists))
    return [
        pytest.param(*(value for _, value in each), marks=[pytest.mark.slow] if sum(n for n, _ in each) % 4 else [])
        for each in combinations
    ]


def third(values: Iterable[Any]) -> list[Any]:
    """Return the values as parameters of a test, two of three of them slow."""
    listed = list(values)
    return quick(listed, *listed[::3])
