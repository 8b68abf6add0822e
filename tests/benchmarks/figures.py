"""A table of measured figures, each with its interval, beside the floor of the machine and the target."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np


@dataclass(frozen=True)
class Figure:
    """A measured figure, and its bound: `most`, or for rates `least`. `floor` is part of the bound."""

    name: str
    samples: Sequence[float]
    unit: str = "ms"
    floor: float | None = None
    most: float | None = None
    least: float | None = None

    @property
    def middle(self) -> float:
        return median(self.samples)

    @property
    def interval(self) -> tuple[float, float]:
        """A 95 % bootstrap interval of the median."""
        found = np.array(self.samples)
        draws = np.random.default_rng(0).integers(len(found), size=(2000, len(found)))
        low, high = np.quantile(np.median(found[draws], axis=1), (0.025, 0.975))
        return float(low), float(high)

    @property
    def verdict(self) -> str:
        if self.most is not None:
            return "met" if self.middle <= self.most else "MISSED"
        if self.least is not None:
            return "met" if self.middle >= self.least else "MISSED"
        return ""


def told(figures: Iterable[Figure]) -> str:
    """The table in Markdown."""
    lines = ["| figure | n | median [95 %] | floor | target | |", "|:--|--:|--:|--:|--:|:--|"]
    for one in figures:
        low, high = one.interval
        floor = "" if one.floor is None else f"{one.floor:,.0f} {one.unit}"
        bound = one.most if one.most is not None else one.least
        sign = "≤" if one.most is not None else "≥"
        target = "" if bound is None else f"{sign} {bound:,.4g} {one.unit}"
        value = f"{_short(one.middle)} {one.unit} [{_short(low)}, {_short(high)}]"
        lines.append(f"| {one.name} | {len(one.samples)} | {value} | {floor} | {target} | {one.verdict} |")
    return "\n".join(lines)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
