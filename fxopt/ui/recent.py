"""A bounded map of the most recently used values."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def keep_recent(kept: dict[K, V], key: K, value: V, most: int) -> None:
    """Put `value` into `kept` as the most recently used, and drop the least recently used beyond `most`.

    >>> kept = {"a": 1, "b": 2}
    >>> keep_recent(kept, "a", 3, most=2)
    >>> keep_recent(kept, "c", 4, most=2)
    >>> kept
    {'a': 3, 'c': 4}
    """
    kept.pop(key, None)
    kept[key] = value
    while len(kept) > most:
        del kept[next(iter(kept))]
