"""Latency over sizes: at which batch and sequence is the new graph faster? A measurement of its own for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd
from torch import nn

from fxopt.evidence.latency import Progress, measure
from fxopt.evidence.latency_report import FEWEST_ROUNDS, LatencyReport
from fxopt.evidence.numerics import Inputs
from fxopt.tracing.replay import first_line

ROUNDS = 10
"""Of a measurement; the fewest whose interval leaves out the one ratio that is furthest away at either end."""

Size = tuple[int, int | None]
"""Batch and sequence; without a sequence, None."""


@dataclass(frozen=True)
class AtSize:
    """The measurement at one size; or the reason why there is none."""

    batch: int
    sequence: int | None
    report: LatencyReport | None = None
    failure: str = ""

    @property
    def name(self) -> str:
        return f"batch {self.batch}" + (f", sequence {self.sequence}" if self.sequence is not None else "")

    @property
    def kind(self) -> str:
        """The verdict in a word or two, the interval left out."""
        if self.report is None:
            return "not measured"
        if len(self.report.rounds) < FEWEST_ROUNDS:
            return "too few rounds"
        if not self.report.shown:
            return "no difference shown"
        return "faster" if self.report.ratio > 1 else "slower"


@dataclass(frozen=True)
class LatencyBySize:
    """The measurements at several sizes, those that failed among them."""

    at: tuple[AtSize, ...]
    stopped: str | None = None
    """The reason for an early end, if it ended early."""

    def __repr__(self) -> str:
        return f"LatencyBySize({self.verdict})"

    @property
    def measured(self) -> tuple[AtSize, ...]:
        """The sizes with rounds enough for an answer."""
        return tuple(one for one in self.at if one.kind not in ("not measured", "too few rounds"))

    @property
    def verdict(self) -> str:
        """The sizes at which it pays, and those at which it costs, in a sentence."""
        many = len(self.measured)
        if not many:
            return "no size could be measured"
        told = [self._told(kind) for kind in ("faster", "slower")]
        if any(told):
            return f"{'; '.join(filter(None, told))}; of {many} sizes that were measured"
        return f"no difference shown at any of {many} sizes"

    def _told(self, kind: str) -> str:
        found = [(one, one.report.ratio) for one in self.at if one.report is not None and one.kind == kind]
        if not found:
            return ""
        most, ratio = (max if kind == "faster" else min)(found, key=lambda pair: pair[1])
        times = ratio if kind == "faster" else 1 / ratio
        return f"{kind} at {len(found)}, the most at {most.name} ({times:.2f}x)"

    @property
    def frame(self) -> pd.DataFrame:
        """A row for each size."""
        rows = [
            (
                one.batch,
                one.sequence,
                one.kind,
                one.report.ratio if one.report is not None else None,
                one.report.low if one.report is not None else None,
                one.report.high if one.report is not None else None,
                one.report.before_ms if one.report is not None else None,
                one.report.after_ms if one.report is not None else None,
            )
            for one in self.at
        ]
        columns = ["batch", "sequence", "verdict", "times as fast", "from", "to", "before ms", "now ms"]
        frame = pd.DataFrame(rows, columns=columns)
        return frame.drop(columns="sequence") if frame["sequence"].isna().all() else frame


def latency_by_size(
    before: nn.Module,
    after: nn.Module,
    sizes: Sequence[Size],
    inputs_of: Callable[[int, int | None], Inputs],
    *,
    rounds: int = ROUNDS,
    budget: float = 60.0,
    on_progress: Progress | None = None,
) -> LatencyBySize:
    """Measure two models side by side at each of the sizes.

    Args:
        inputs_of: returns the inputs of a size. Its error, or that of a run, is the reason why there is no measurement.
        budget: seconds for all sizes together, an equal part for each.
        on_progress: is told the share that is done; False ends the work after the sizes that are done.
    """
    done: list[AtSize] = []
    for number, (batch, sequence) in enumerate(sizes):

        def told(share: float, number: int = number) -> bool | None:
            return None if on_progress is None else on_progress((number + share) / len(sizes))

        if told(0) is False:
            return LatencyBySize(tuple(done), "cancelled")
        try:
            args, kwargs = inputs_of(batch, sequence)
            report = measure(before, after, args, kwargs, rounds=rounds, budget=budget / len(sizes), on_progress=told)
        except Exception as error:  # noqa: BLE001 - a model may fail at other sizes in any way, which is told
            done.append(AtSize(batch, sequence, failure=first_line(error)))
            continue
        if report.cancelled:
            return LatencyBySize(tuple(done), "cancelled")
        done.append(AtSize(batch, sequence, report))
    return LatencyBySize(tuple(done))


def sizes_around(own: Size, bounds: Sequence[tuple[int, int] | None]) -> tuple[Size, ...]:
    """Return the sizes to try: the own one, and smaller and larger ones within the bounds.

    Args:
        bounds: of batch and sequence, the least and the most; None keeps the own size.

    >>> sizes_around((2, 16), ((1, 8), (1, 128)))
    ((1, 4), (1, 16), (1, 64), (2, 4), (2, 16), (2, 64), (8, 4), (8, 16), (8, 64))
    >>> sizes_around((4, None), ((1, 256), None))
    ((1, None), (2, None), (4, None), (8, None), (16, None))
    """
    factors = (1 / 4, 1, 4) if all(bounds) else (1 / 4, 1 / 2, 1, 2, 4)
    batches, lengths = (
        [size] if size is None or bound is None else
        sorted({min(max(bound[0], int(size * factor)), bound[1]) for factor in factors})
        for size, bound in zip(own, bounds)
    )  # fmt: skip
    return tuple((batch, length) for batch in batches if batch is not None for length in lengths)
