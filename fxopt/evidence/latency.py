"""Is the new graph faster? Paired, interleaved measurements with an A/A control beside every A/B.

On a shared machine a single timing says little: the same model, timed twice in a row, differs by half.
So a round measures the original, the new graph, and the original once more as a control, in random
order, and only ratios within a round are used. The figure is their median, with an interval between two of the
ordered ratios. A difference is claimed where that whole interval lies beyond the whole interval of the
original against itself. Times are CPU time of this thread, with torch held to one thread; with more threads, they are
times on the wall, which other work on the machine lengthens for all sides alike. `latency_report.py` has the interval.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import nn

from fxopt.evidence.latency_report import EARLY_ROUNDS, LatencyReport, Round, report_of
from fxopt.evidence.running import RunStoppedError, copied, left_as_it_was, stopping
from fxopt.process.locks import free_in_forks

SAMPLE_SECONDS = 0.02
EARLY_SHARE = 0.5
"""A sample of a measurement that may end early takes so much of `SAMPLE_SECONDS`: its interval is some wider."""
WARM_UPS = 2
_MARGIN = 1.1  # a sample that comes out too short costs another try, and one that is too long costs each round
LONG_SECONDS = 1.0
"""Runs that take longer can be ended between two calls of torch, at some microseconds a call, for all sides alike."""

_BEFORE, _AFTER, _CONTROL = "before", "after", "control"
_MOST_CALLS = 10_000
_SHORTEST = 1e-9  # the clock stood still

# the number of threads belongs to the process, and two measurements at once would slow each other down
_MEASURING = free_in_forks(threading.Lock())
_PATIENCE = 0.2

Clock = Callable[[], float]
Progress = Callable[[float], bool | None]


def measure(
    before: nn.Module,
    after: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    rounds: int = 15,
    budget: float = 60.0,
    seed: int = 0,
    on_progress: Progress | None = None,
    threads: int | None = None,
    early: bool = False,
    clock: Clock | None = None,
    wall: Clock = time.monotonic,
) -> LatencyReport:
    """Measure two models side by side on the same inputs.

    It is the CPU time of one thread; or, with `threads`, the time on the wall while torch computes with so many.

    `on_progress` is told the share that is done, after each sample, and during the first run of each model and runs of
    more than `LONG_SECONDS` at each call of torch; it ends the measurement by returning False. So does `budget`, in
    seconds by the clock on the wall. With `early`, its samples are half as long, and it ends after `EARLY_ROUNDS` where
    a difference is shown by then: in half or a quarter of the time, with a wider interval that holds the truth as
    often. Only finished rounds count. The models, the inputs and torch's number of threads stay unchanged. Only one
    measurement runs in a process; another waits for its turn, and can be cancelled meanwhile.
    """
    told = on_progress or (lambda share: None)
    clock = clock or (time.thread_time if threads is None else time.perf_counter)
    with measuring(lambda: told(0.0), threads or 1) as is_wanted:
        if not is_wanted:
            return report_of([], stopped="cancelled", wall_threads=threads)
        with torch.inference_mode(), left_as_it_was(before), left_as_it_was(after):
            end = _End(told, 3 * rounds, wall, budget)
            seconds = SAMPLE_SECONDS * (EARLY_SHARE if early else 1)
            bench = _Bench(before, after, copied((args, kwargs or {})), clock, end, seconds)
            calls = bench.warm_up()
            done = bench.run(rounds, calls, random.Random(seed), early) if calls else []
    return report_of(done, calls_per_sample=calls or 1, stopped=end.reason, wall_threads=threads)


class _End:
    """Decides when a measurement ends early."""

    def __init__(self, told: Progress, samples: int, wall: Clock, budget: float) -> None:
        self._told, self._samples, self._wall, self._budget = told, samples, wall, budget
        self._deadline = wall() + budget
        self.done = 0
        """The number of samples that are done."""
        self.reason: str | None = None

    def is_here(self) -> bool:
        if self.reason is None and self._told(self.done / self._samples) is False:
            self.reason = "cancelled"
        if self.reason is None and self._wall() > self._deadline and self.done < self._samples:
            self.reason = f"out of time ({self._budget:g} s)"
        return self.reason is not None


@contextmanager
def measuring(on_wait: Callable[[], bool | None], threads: int = 1) -> Iterator[bool]:
    """Within the block, be the only measurement of this process, and let torch compute with so many threads.

    Yields whether the measurement is wanted: `on_wait` is asked while another one runs, and cancels by returning False.
    """
    while not _MEASURING.acquire(timeout=_PATIENCE):
        if on_wait() is False:
            yield False
            return
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        yield True
    finally:
        torch.set_num_threads(before)
        _MEASURING.release()


class _Bench:
    """The two models with their inputs, and the clock."""

    def __init__(
        self, before: nn.Module, after: nn.Module, inputs: Any, clock: Clock, end: _End, seconds: float
    ) -> None:
        self.models = {_BEFORE: before, _AFTER: after, _CONTROL: before}
        self.args, self.kwargs = inputs
        self.clock = clock
        self.seconds = seconds
        self._end = end
        self._is_long = True  # until the first runs are done

    def run(self, rounds: int, calls: int, order: random.Random, early: bool) -> list[Round]:
        """Return the finished rounds."""
        done: list[Round] = []
        for _ in range(rounds):
            found: dict[str, float] = {}
            for side in order.sample((_BEFORE, _AFTER, _CONTROL), 3):
                try:
                    found[side] = self.sample(side, calls)
                except RunStoppedError:
                    return done
                self._end.done += 1
                if self._end.is_here():
                    break
            if len(found) == 3:
                done.append(Round(**found))
            if self._end.reason is not None or (early and len(done) == EARLY_ROUNDS and report_of(done).shown):
                return done
        return done

    def sample(self, side: str, calls: int) -> float:
        """Seconds for one call, the mean of some in a row.

        Raises:
            RunStoppedError: the measurement is to end.
        """
        model, args, kwargs = self.models[side], self.args, self.kwargs
        with self._watched(model):
            if calls > 1:
                model(*args, **kwargs)  # the original is run twice as often and would find more in the caches
            start = self.clock()
            for _ in range(calls):
                model(*args, **kwargs)
            return max(self.clock() - start, _SHORTEST) / calls

    def _watched(self, model: nn.Module) -> AbstractContextManager[object]:
        return stopping(model, lambda: not self._end.is_here()) if self._is_long else nullcontext()

    def warm_up(self) -> int:
        """Call both models; return the calls in a row that make a sample of either long enough, 0 for an early end."""
        sides = (_BEFORE, _AFTER)
        try:
            self._is_long = max([self.sample(side, 1) for side in sides]) > LONG_SECONDS
            later = [[self.sample(side, 1) for _ in range(WARM_UPS - 1)][-1] for side in sides]
            self._is_long = max(later) > LONG_SECONDS  # a compiler may have taken its time in the first run alone
            shortest = min(later)
            calls = 1
            while shortest < self.seconds and calls < _MOST_CALLS:
                calls = min(_MOST_CALLS, max(calls + 1, round(_MARGIN * calls * self.seconds / shortest)))
                shortest = min(self.sample(side, calls) * calls for side in sides)
                if self._end.is_here():
                    return 0
        except RunStoppedError:
            return 0
        return calls


def threads_here() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
