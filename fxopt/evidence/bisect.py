"""Bisection: the smallest set of parts that makes a test fail, found by running the test on ever smaller sets.

It is delta debugging (Zeller and Hildebrandt 2002, "Simplifying and isolating failure-inducing input", `ddmin`): the
set is halved; if neither half fails by itself, each complement is tried, then finer parts. One culprit among n is found
in about 2 log2(n) tests; a set is *smallest* in the sense that the test passes without any single one of its members.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def smallest_failing(parts: Sequence[T], fails: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """Return a smallest set of `parts` for which `fails` is true, in their order.

    Args:
        parts: for all of them together, `fails` is true.
        fails: is asked once at most for each set.

    >>> smallest_failing(range(100), lambda some: 13 in some and 77 in some)
    (13, 77)
    """
    known: dict[tuple[int, ...], bool] = {}

    def asked(places: tuple[int, ...]) -> bool:
        if places not in known:
            known[places] = fails(tuple(parts[i] for i in places))
        return known[places]

    left = tuple(range(len(parts)))
    pieces = 2
    while len(left) > 1:
        cuts = [len(left) * i // pieces for i in range(pieces + 1)]
        chunks = [left[start:end] for start, end in itertools.pairwise(cuts)]
        rests = [tuple(i for i in left if i not in chunk) for chunk in chunks] if pieces > 2 else []
        smaller = next((chunk for chunk in chunks if asked(chunk)), None)
        if smaller is not None:
            left, pieces = smaller, 2
            continue
        rest = next((rest for rest in rests if asked(rest)), None)
        if rest is not None:
            left, pieces = rest, max(pieces - 1, 2)
        elif pieces >= len(left):
            break
        else:
            pieces = min(2 * pieces, len(left))
    return tuple(parts[i] for i in left)
