"""Turns: of many visitors who open a model at once, a few are served at a time, in the order in which they came.

All at once, Python would give each a fraction of its one thread: all would be served last, and those who switch a pass
meanwhile would wait as long. Those being served never wait for those behind.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

AT_ONCE = 2


class Turns:
    """A gate that lets a few threads at a time do something.

    A thread that has its turn may ask for it again, and may step aside while it waits for something else. While it has
    its turn or comes back to it, it waits for no thread that may want one.
    """

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._free = threading.Semaphore(at_once)
        self._mine = threading.local()

    @contextmanager
    def turn(self) -> Iterator[None]:
        if self._has_one:
            yield
            return
        with self._free:
            self._mine.has_one = True
            try:
                yield
            finally:
                self._mine.has_one = False

    @property
    def _has_one(self) -> bool:
        return getattr(self._mine, "has_one", False)

    def aside(self) -> AbstractContextManager[None]:
        """Let others have their turn within the block, where this thread has one."""
        return self._aside() if self._has_one else nullcontext()

    @contextmanager
    def _aside(self) -> Iterator[None]:
        self._mine.has_one = False
        self._free.release()
        try:
            yield
        finally:
            self._free.acquire()
            self._mine.has_one = True


FIRST_DRAWINGS = Turns()
"""Of the page with a model that a visitor has just opened."""
