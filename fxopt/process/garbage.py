"""Python's search for garbage cycles, put off while a graph is rewritten or libraries are imported."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from fxopt.process.ending import ended

P = ParamSpec("P")
T = TypeVar("T")


def without_collection(act: Callable[P, T]) -> Callable[P, T]:
    """Let `act` run without a search for garbage cycles, which comes after it.

    A rewrite makes many lasting objects and hardly a cycle, and so does an import. Python would search the young ones
    over and over, and with them the whole process: in the merging of 24,000 linears that is more than half of the time,
    and it grows faster than the graph. If the search was off before, it stays off.
    """

    @functools.wraps(act)
    def undisturbed(*args: P.args, **kwargs: P.kwargs) -> T:
        if not gc.isenabled():
            return act(*args, **kwargs)

        def without() -> T:
            gc.disable()
            return act(*args, **kwargs)

        return ended(without, gc.enable)

    return undisturbed
