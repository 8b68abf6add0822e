"""Parameters of a test, most of which run among the slow tests alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def quick(values: Iterable[Any], *representatives: Any) -> list[Any]:
    """Return the values as parameters of a test, slow but for the representatives."""
    return [value if value in representatives else pytest.param(value, marks=pytest.mark.slow) for value in values]


def third(values: Iterable[Any]) -> list[Any]:
    """Return the values as parameters of a test, two of three of them slow."""
    listed = list(values)
    return quick(listed, *listed[::3])
