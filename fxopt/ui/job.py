"""Work that takes a while, in a thread of its own: the page stays usable, and it can be cancelled."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
Progress = Callable[[float], bool]
"""Told the share that is done; False asks the work to end."""


class Job(Generic[T]):
    """Runs `work` once, which reports its progress and ends when asked to.

    >>> job = Job(lambda progress: progress(0.5) and 42)
    >>> job.wait(), job.result, job.error
    (None, 42, '')
    """

    def __init__(self, work: Callable[[Progress], T]) -> None:
        self.share = 0.0
        self.result: T | None = None
        self.error = ""
        """What went wrong, if anything did."""
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def cancel(self) -> None:
        """Ask the work to end; it does so at its next report of progress."""
        self._ending.set()

    def wait(self) -> None:
        self._thread.join()

    def _run(self, work: Callable[[Progress], T]) -> None:
        try:
            self.result = work(self._progress)
        except Exception as error:  # noqa: BLE001 - it would end in this thread unseen; the page shows it
            self.error = f"{type(error).__name__}: {error}"

    def _progress(self, share: float) -> bool:
        self.share = min(max(share, 0.0), 1.0)
        return not self._ending.is_set()
