"""Time limit of a recording, and the news of it meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable

from fxopt.tracing.lines import calling_line
from fxopt.tracing.report import RecordingError

SECONDS_BETWEEN_NEWS = 0.5
"""The interval of the news of a long recording."""


class BudgetError(RecordingError):
    """A rung took longer than its budget."""


class Clock:
    """Ends a recording that takes more than `budget` seconds, and reports the number of calls so far.

    The seconds are CPU time of the thread that records, so that the free sizes are independent of the machine's load.
    """

    def __init__(self, budget: float | None, tell: Callable[[int], None]) -> None:
        self.budget, self.tell = budget, tell
        self.calls = 0
        self.started, self.told = time.thread_time(), time.perf_counter()

    def tick(self) -> None:
        """Count a call that Python makes; within an operation of torch, an exception could end the process."""
        if self.budget is not None and time.thread_time() - self.started > self.budget:
            raise BudgetError(f"it took more than the budget of {self.budget} s of CPU time", calling_line())
        now = time.perf_counter()
        if now - self.told > SECONDS_BETWEEN_NEWS:
            self.told = now
            self.tell(self.calls)
        self.calls += 1
