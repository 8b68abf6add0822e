"""Work that takes a while, in a thread of its own: the page stays usable, and it can be cancelled."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
Progress = Callable[[float], bool]
"""Told the share that is done; False asks the work to end."""


class Job(Generic[T]):
    """Runs `work` once, which reports its progress and ends when asked to, or when it is no longer `wanted`.

    >>> job = Job(lambda progress: progress(0.5) and 42)
    >>> job.wait(), job.result, job.error
    (True, 42, '')
    """

    def __init__(self, work: Callable[[Progress], T], wanted: Callable[[], bool] = lambda: True) -> None:
        self.share = 0.0
        self.result: T | None = None
        self.failure: Exception | None = None
        """The error, if it failed."""
        self._ending = threading.Event()
        self._wanted = wanted
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    @property
    def error(self) -> str:
        """The error in words; empty after success."""
        return f"{type(self.failure).__name__}: {self.failure}" if self.failure is not None else ""

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    @property
    def is_cancelled(self) -> bool:
        """Whether it was asked to end; it may run still."""
        return self._ending.is_set()

    def cancel(self) -> None:
        """Ask the work to end; it does so at its next report of progress."""
        self._ending.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is done, or for so many seconds; say whether it is done."""
        self._thread.join(seconds)
        return not self.running

    def _run(self, work: Callable[[Progress], T]) -> None:
        try:
            self.result = work(self._progress)
        except Exception as error:  # noqa: BLE001 - it would end in this thread unseen; the page shows it
            self.failure = error

    def _progress(self, share: float) -> bool:
        self.share = min(max(share, 0.0), 1.0)
        return not self._ending.is_set() and self._wanted()
