"""News of long work to a waiting listener, who may end it. The thread knows the listener; calls need not carry it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar

from fxopt.errors import CancelledError

Listener = Callable[[str], bool | None]
"""Told the stage in a few words; False asks the work to end."""

_SECONDS_BETWEEN_NEWS = 0.1

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextlib.contextmanager
def news_to(listener: Listener | None) -> Iterator[None]:
    """Tell `listener` the news of this thread meanwhile.

    >>> with news_to(print):
    ...     tell("reading the weights")
    reading the weights
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def tell(stage: str) -> None:
    """Tell the listener, if there is one. Raises a `CancelledError` where it asks the work to end."""
    listener = _listener.get()
    if listener is not None and listener(stage) is False:
        raise CancelledError(f"it was cancelled at: {stage}")


class Pace:
    """Tells a stage at most ten times a second, however often it is asked to."""

    def __init__(self, stage: str) -> None:
        self._stage = stage
        self._told = time.perf_counter()

    def tell(self) -> None:
        """Tell the listener unless that was done just now. Raises a `CancelledError` where it asks the work to end."""
        now = time.perf_counter()
        if now - self._told > _SECONDS_BETWEEN_NEWS:
            self._told = now
            tell(self._stage)
