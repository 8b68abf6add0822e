"""Torch's default dtype, which is one for all threads: whoever changes it says so, and a run that saw it is repeated.

transformers builds a model of bfloat16 with that as the default dtype. A model that another thread runs meanwhile would
make its new tensors in it, and give other numbers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeVar

from fxopt.process.one_at_a_time import one_at_a_time

T = TypeVar("T")

_begun = 0
_ended = 0


@contextlib.contextmanager
def changing_defaults() -> Iterator[None]:
    """Hold off builds and captures, and let the runs of other threads know that the default dtype may change."""
    global _begun, _ended
    with one_at_a_time():
        _begun += 1
        try:
            yield
        finally:
            _ended += 1


def with_steady_defaults(run: Callable[[], T]) -> T:
    """Return the result of `run`, which is repeated where the default dtype may have changed meanwhile."""
    ended = _ended
    try:
        result = run()
    except Exception:
        if _begun == ended:
            raise
    else:
        if _begun == ended:
            return result
    with one_at_a_time():
        return run()
