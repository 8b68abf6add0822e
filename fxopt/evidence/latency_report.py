"""The statistics of a measurement of latency: the median ratio, its interval, and the answer in words.

The interval inverts the sign test (Thompson 1936; David and Nagaraja, Order Statistics, 3rd ed., section 7.1): of n
rounds, fewer than k lie on one side of the truth with the probability that a fair coin shows fewer than k heads. The
noise may have any shape. That the coin is fair, and each round has one of its own, follows from the random order within
a round: for any two moments that the noise slows down, each of the two models is as likely to have met either, also
where the noise of one round goes on in the next. The percentile bootstrap of the median, by contrast, covers 92 %
instead of 95 % with 15 rounds. The probability aimed at is beyond 95 %, since a longer sample meets bursts in another
measure than a shorter one.
"""

from __future__ import annotations

import functools
import math
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from fxopt.display import Displayed

FEWEST_ROUNDS = 6
"""With fewer, the smallest and the largest ratio hold the truth between them less than 95 times of 100."""
EARLY_ROUNDS = 8
"""The rounds after which a measurement may look whether a difference is shown, and end if one is.

A look at any time would claim too much. All of 8 ratios lie on one side of the truth 1 time of 128, and those of 15
rounds beyond the interval 1 time of 135: with both looks together, the interval misses it at most 2 times of 128.
"""

_COVERED = 0.975


@dataclass(frozen=True)
class Round:
    """Seconds for one call, measured side by side; `control` is the original again."""

    before: float
    after: float
    control: float


@dataclass(frozen=True)
class LatencyReport(Displayed):
    """The result of a measurement. A `ratio` above 1 means that the new graph is faster, by that factor.

    `low` and `high` bound its interval, which holds the truth at least 95 times of 100, `control_low` and
    `control_high` that of the original against itself. All are NaN before the first full round. `stopped` is the reason
    for an early end, if it ended early.
    """

    rounds: tuple[Round, ...]
    ratio: float
    low: float
    high: float
    control_low: float
    control_high: float
    calls_per_sample: int
    threads: int
    machine: str
    stopped: str | None = None
    is_wall: bool = False
    """True for times on the wall, False for CPU time of one thread."""

    @property
    def cancelled(self) -> bool:
        return self.stopped == "cancelled"

    @property
    def before_ms(self) -> float:
        """The median of one call of the original, in milliseconds."""
        return _median([one.before for one in self.rounds]) * 1000

    @property
    def after_ms(self) -> float:
        return _median([one.after for one in self.rounds]) * 1000

    @property
    def shown(self) -> bool:
        """Does the whole interval lie further from 1 than any of the original against itself, on either side?"""
        if len(self.rounds) < FEWEST_ROUNDS:
            return False
        noise = max(abs(math.log(self.control_low)), abs(math.log(self.control_high)))
        return math.log(self.low) > noise or math.log(self.high) < -noise

    def __repr__(self) -> str:
        return f"LatencyReport({self.verdict})"

    @property
    def verdict(self) -> str:
        """The answer in words, with the interval."""
        if len(self.rounds) < FEWEST_ROUNDS:
            return f"not enough rounds for an answer ({len(self.rounds)} of at least {FEWEST_ROUNDS})"
        if not self.shown:
            itself = f"; the original against itself [{self.control_low:.2f}, {self.control_high:.2f}]"
            within = itself if not self.low <= 1 <= self.high else ""
            return f"no difference shown [{self.low:.2f}, {self.high:.2f}]{within}"
        if self.ratio > 1:
            return f"{self.ratio:.2f}x faster [{self.low:.2f}, {self.high:.2f}]"
        return f"{1 / self.ratio:.2f}x slower [{1 / self.high:.2f}, {1 / self.low:.2f}]"

    @property
    def frame(self) -> pd.DataFrame:
        """A row for each round, in milliseconds for one call."""
        rows = [(one.before * 1000, one.after * 1000, one.control * 1000) for one in self.rounds]
        return pd.DataFrame(rows, columns=["before ms", "after ms", "before again ms"])


def report_of(
    rounds: list[Round], *, calls_per_sample: int = 1, stopped: str | None = None, wall_threads: int | None = None
) -> LatencyReport:
    """Return the statistics of some rounds, measured in any way: with `wall_threads`, on the wall with so many."""
    ratios = [one.before / one.after for one in rounds]
    low, high = interval_of(ratios)
    control_low, control_high = interval_of([one.before / one.control for one in rounds])
    return LatencyReport(
        rounds=tuple(rounds),
        ratio=_median(ratios),
        low=low,
        high=high,
        control_low=control_low,
        control_high=control_high,
        calls_per_sample=calls_per_sample,
        threads=wall_threads or 1,
        machine=machine(),
        stopped=stopped,
        is_wall=wall_threads is not None,
    )


def interval_of(values: Sequence[float]) -> tuple[float, float]:
    """Return the interval of the median, between the k-th smallest and the k-th largest of the values; NaN of none."""
    if not values:
        return math.nan, math.nan
    ordered, outside = sorted(values), _outside(len(values))
    return ordered[outside], ordered[-1 - outside]


@functools.cache
def _outside(count: int) -> int:
    """Return how many of `count` ratios may lie outside at either end.

    It is the largest `m` for which a fair coin, thrown `count` times, shows at most `m` heads or at most `m` tails with
    a probability of at most 1 - `_COVERED`; 0 if there is none.

    >>> [_outside(count) for count in (6, 8, 15, 30)]
    [0, 0, 2, 8]
    """
    tail, outside = 1, -1
    while 2 * tail <= (1 - _COVERED) * 2**count:
        outside += 1
        tail += math.comb(count, outside + 1)
    return max(outside, 0)


def _median(values: list[float]) -> float:
    return float(np.median(values)) if values else math.nan


@functools.cache
def machine() -> str:
    """Return the processor's name, its family and instructions, and the number of its cores.

    A virtual machine may hide the model: processors of one name may differ in speed by half, but not with the rest.
    """
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines() if cpuinfo.is_file() else []
    known = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in reversed(lines))}
    name = known.get("model name") or platform.processor() or platform.machine()
    family = [f"family {known['cpu family']}"] if "cpu family" in known else []
    details = ", ".join([*family, torch.backends.cpu.get_cpu_capability()])
    return f"{name} ({details}), {os.cpu_count()} cores"
