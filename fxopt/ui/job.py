"""Work that takes a while, in a thread of its own: the page stays usable, and it can be cancelled."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Generic, TypeVar

from fxopt.errors import CancelledError
from fxopt.process.forked import can_fork
from fxopt.ui.one_in_line import Line
from fxopt.workbench import Choice

T = TypeVar("T")
Progress = Callable[[float], bool]
"""Told the share that is done; False asks the work to end."""


def about_cancel() -> str | None:
    """Return the help of a button that cancels work, where the end may be slow to come."""
    if can_fork():
        return None
    return "A call of PyTorch that has begun comes to its end first, which may take a while; on Linux it is ended, too."


class Job(Generic[T]):
    """Runs `work` once, which reports its progress and ends when asked to, or when it is no longer `wanted`.

    With a `line`, it waits there for its turn first.

    >>> job = Job(lambda progress: progress(0.5) and 42)
    >>> job.wait(), job.result, job.error
    (True, 42, '')
    """

    def __init__(
        self, work: Callable[[Progress], T], wanted: Callable[[], bool] = lambda: True, line: Line | None = None
    ) -> None:
        self.share = 0.0
        self.result: T | None = None
        self.failure: Exception | None = None
        """The error, if it failed."""
        self._begun = self._was_left = False
        self._ending = threading.Event()
        self._wanted = wanted
        self._line = line
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
    def is_unanswered(self) -> bool:
        """Whether it ended without an answer: before its turn in the line, or because nobody wanted it any more."""
        before_its_turn = isinstance(self.failure, CancelledError) and not self._begun
        return self.failure is not None and (before_its_turn or self._was_left)

    @property
    def before(self) -> int:
        """The number of jobs in the line that come before this one."""
        return self._line.before(self) if self._line is not None else 0

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
            with self._line.turn(self, lambda: self._progress(0)) if self._line is not None else nullcontext():
                self._begun = True
                self.result = work(self._progress)
        except Exception as error:  # noqa: BLE001 - it would end in this thread unseen; the page shows it
            self.failure = error

    def _progress(self, share: float) -> bool:
        self.share = min(max(share, 0.0), 1.0)
        self._was_left = self._was_left or not self._wanted()
        return not self._ending.is_set() and not self._was_left


@dataclass(frozen=True, eq=False)
class GraphJob(Generic[T]):
    """Work on the graph as it was at some choices of passes."""

    choices: tuple[Choice, ...]
    job: Job[T]
