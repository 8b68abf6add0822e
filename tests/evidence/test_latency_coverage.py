"""Does the interval hold the truth as often as it says? Asked of the estimator alone: nothing is timed here.

The noise is that of a shared machine: it goes on from one sample to the next, has heavy tails, and comes in bursts.
It is drawn from a law that was fitted to recorded rounds, and the rounds themselves are asked as well.
`tests/benchmarks/bench_latency_coverage.py` asks the same of real measurements.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fxopt.evidence import LatencyReport, Round, report_of
from fxopt.evidence.latency_report import EARLY_ROUNDS

ROUNDS = 15
RUNS = 1000
RECORDED = Path(__file__).with_name("recorded_rounds.npz")
"""Rounds in microseconds of two cores with ten busy processes, a model against itself with 0 to 30 % more layers."""


@dataclasses.dataclass(frozen=True)
class Noise:
    """The logarithm of the slow-down of sample after sample."""

    level: float  # the spread of what goes on
    goes_on: float  # its correlation from one sample to the next
    spread: float  # of what each sample has to itself, Student's t with 3 degrees of freedom
    bursts: float  # their share
    burst: float  # their mean size

    def samples(self, draw: np.random.Generator, runs: int, count: int) -> np.ndarray:
        found = np.empty((runs, count))
        level = draw.normal(0, self.level, runs)
        for i in range(count):
            level = self.goes_on * level + draw.normal(0, self.level * (1 - self.goes_on**2) ** 0.5, runs)
            own = self.spread * draw.standard_t(3, runs) / 3**0.5
            found[:, i] = level + own + draw.exponential(self.burst, runs) * (draw.random(runs) < self.bursts)
        return found


NOISES = {
    "quiet": Noise(0.01, 0.9, 0.005, 0.02, 0.05),
    "loaded": Noise(0.15, 0.85, 0.07, 0.08, 0.15),
    "in long spells": Noise(0.4, 0.99, 0.05, 0.02, 1.0),
    "in bursts": Noise(0.02, 0.5, 0.01, 0.4, 0.5),
}


def runs(noise: Noise, slower_by: float, count: int = ROUNDS, seed: int = 0) -> Iterator[LatencyReport]:
    """Many measurements, in which the new graph takes `slower_by` percent more time."""
    draw = np.random.default_rng(seed)
    times = np.exp(noise.samples(draw, RUNS, 3 * count)).reshape(RUNS, count, 3)
    times = draw.permuted(times, axis=2)  # the order of the three samples of a round is drawn anew for each
    times[:, :, 1] *= 1 + slower_by / 100
    for run in times:
        yield report_of([Round(*one) for one in run.tolist()])


def share(answers: list[bool]) -> float:
    return sum(answers) / len(answers)


@pytest.mark.parametrize("slower_by", [0, 3, 10, 30])
@pytest.mark.parametrize("noise", NOISES)
def test_the_interval_holds_the_truth_at_least_95_times_of_100(noise: str, slower_by: float) -> None:
    truth = 1 / (1 + slower_by / 100)
    reports = list(runs(NOISES[noise], slower_by))
    assert share([report.low <= truth <= report.high for report in reports]) >= 0.95
    assert share([report.control_low <= 1 <= report.control_high for report in reports]) >= 0.95
    assert all(report.low <= report.ratio <= report.high for report in reports)


@pytest.mark.parametrize("slower_by", [0, 3, 10, 30])
@pytest.mark.parametrize("noise", NOISES)
def test_a_measurement_that_ends_early_where_a_difference_is_shown_keeps_its_word(noise: str, slower_by: float) -> None:
    truth = 1 / (1 + slower_by / 100)
    reports = []
    for whole in runs(NOISES[noise], slower_by):
        early = report_of(list(whole.rounds[:EARLY_ROUNDS]))
        reports.append(early if early.shown else whole)
    assert share([report.low <= truth <= report.high for report in reports]) >= 0.95
    assert share([report.shown and (report.ratio > 1 or not slower_by) for report in reports]) <= 0.01


@pytest.mark.parametrize("count", [6, 7, 9, 12, 20, 31])
def test_it_does_so_with_any_number_of_rounds(count: int) -> None:
    reports = list(runs(NOISES["loaded"], 10, count))
    assert share([report.low <= 1 / 1.1 <= report.high for report in reports]) >= 0.95


@pytest.mark.parametrize("slower_by", [0, 3, 10, 30])
def test_the_interval_of_recorded_rounds_holds_the_truth(slower_by: int) -> None:
    truth = 1 / (1 + slower_by / 100)
    recorded = [Round(*one) for one in np.load(RECORDED)[f"slower_by_{slower_by}"].tolist()]
    reports = [report_of(recorded[at : at + ROUNDS]) for at in range(len(recorded) - ROUNDS + 1)]
    assert len(reports) > 500
    assert share([report.low <= truth <= report.high for report in reports]) >= 0.95
    assert not any(report.shown and report.ratio > 1 for report in reports)


def test_the_law_of_the_noise_is_that_of_the_recorded_rounds() -> None:
    """No tamer, that is: as wide, and as far-reaching."""
    recorded = np.log(np.load(RECORDED)["slower_by_0"].astype(float))
    made = NOISES["loaded"].samples(np.random.default_rng(0), 1, recorded.size).reshape(-1, 3)

    def spread(times: np.ndarray) -> float:
        return float(np.diff(np.quantile(times[:, 0] - times[:, 1], (0.01, 0.99)))[0])

    def goes_on(times: np.ndarray) -> float:
        return float(np.corrcoef(times[:-1, 0], times[1:, 0])[0, 1])

    assert spread(made) == pytest.approx(spread(recorded), rel=0.3)
    assert goes_on(made) == pytest.approx(goes_on(recorded), abs=0.2)


def test_equal_graphs_are_told_apart_hardly_ever_and_unequal_ones_where_the_noise_allows_it() -> None:
    for noise in NOISES.values():
        assert share([report.shown for report in runs(noise, 0)]) <= 0.01
    assert share([report.shown and report.ratio < 1 for report in runs(NOISES["quiet"], 10)]) >= 0.99
    assert share([report.shown for report in runs(NOISES["quiet"], 3)]) >= 0.9
    assert share([report.shown for report in runs(NOISES["loaded"], 100)]) >= 0.9


def reported(low: float, high: float, control_low: float, control_high: float) -> LatencyReport:
    report = report_of([Round(1.0, 1.0, 1.0)] * 9)
    ratio = (low * high) ** 0.5
    return dataclasses.replace(
        report, ratio=ratio, low=low, high=high, control_low=control_low, control_high=control_high
    )


@pytest.mark.parametrize(
    ("interval", "control", "verdict"),
    [
        ((1.05, 1.10), (0.98, 1.02), "1.07x faster [1.05, 1.10]"),
        ((0.90, 0.95), (0.98, 1.02), "1.08x slower [1.05, 1.11]"),
        ((1.01, 1.40), (0.98, 1.02), "no difference shown [1.01, 1.40]; the original against itself [0.98, 1.02]"),
        ((0.70, 0.99), (0.97, 1.02), "no difference shown [0.70, 0.99]; the original against itself [0.97, 1.02]"),
        ((1.03, 1.10), (0.94, 1.01), "no difference shown [1.03, 1.10]; the original against itself [0.94, 1.01]"),
        ((1.03, 1.10), (1.04, 1.06), "no difference shown [1.03, 1.10]; the original against itself [1.04, 1.06]"),
        ((0.99, 1.40), (0.99, 1.01), "no difference shown [0.99, 1.40]"),
        ((1.00, 1.40), (1.00, 1.00), "no difference shown [1.00, 1.40]"),
    ],
)
def test_a_difference_is_claimed_where_the_whole_interval_is_beyond_that_of_the_control(
    interval: tuple[float, float], control: tuple[float, float], verdict: str
) -> None:
    report = reported(*interval, *control)
    assert report.verdict == verdict
    assert report.shown == ("no difference" not in verdict)
