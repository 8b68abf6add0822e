"""A line in front of something that is done for one visitor, or a few, at a time, in the order in which they came."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

from fxopt.errors import CancelledError

_SECONDS_BETWEEN_LOOKS = 0.1


class Line:
    """Those who wait, the first of whom, or the first `at_once`, are being served.

    >>> line = Line()
    >>> with line.turn("me", lambda: True):
    ...     line.before("me")
    0
    """

    def __init__(self, at_once: int = 1) -> None:
        self._at_once = at_once
        self._changed = threading.Condition()
        self._waiting: list[Hashable] = []

    def before(self, who: Hashable) -> int:
        """Return the number of those who leave the line before `who` is served."""
        with self._changed:
            return max(0, self._waiting.index(who) - self._at_once + 1) if who in self._waiting else 0

    @contextmanager
    def turn(self, who: Hashable, wanted: Callable[[], bool]) -> Iterator[None]:
        """Wait for the turn of `who`, and hold it within the block.

        Raises:
            CancelledError: it is no longer `wanted`, which is asked a few times a second.
        """
        with self._changed:
            self._waiting.append(who)
        try:
            with self._changed:
                while who not in self._waiting[: self._at_once]:
                    if not wanted():
                        raise CancelledError("it was cancelled before its turn")
                    self._changed.wait(_SECONDS_BETWEEN_LOOKS)
            yield
        finally:
            with self._changed:
                self._waiting.remove(who)
                self._changed.notify_all()


MEASUREMENTS = Line()
"""Of measurements of time: two at once would disturb each other."""
