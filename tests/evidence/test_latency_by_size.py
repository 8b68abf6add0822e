"""Latency over sizes: a measurement at each, the sizes that fail, and the verdict in words."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from fxopt.evidence import LatencyReport, Round, report_of
from fxopt.evidence.latency_by_size import AtSize, LatencyBySize, latency_by_size, sizes_around
from fxopt.models import Inputs


def inputs_of(batch: int, sequence: int | None) -> Inputs:
    return (torch.rand(batch, sequence or 1, 4),), {}


def report(ratio: float) -> LatencyReport:
    noise = itertools.cycle((0.999, 1.001))
    return report_of([Round(ratio, 1.0, ratio * next(noise)) for _ in range(10)])


def test_each_size_is_measured_on_its_own_inputs_and_progress_goes_from_none_to_all() -> None:
    told: list[float] = []
    model = nn.Linear(4, 4).eval()
    sizes = ((1, None), (8, None))
    found = latency_by_size(model, model, sizes, inputs_of, rounds=6, on_progress=told.append)
    assert [(one.batch, one.report is not None) for one in found.measured] == [(1, True), (8, True)]
    assert told == sorted(told)
    assert told[0] == 0
    assert list(found.frame.columns)[:2] == ["batch", "verdict"], "without a sequence there is no column for it"


def test_a_size_at_which_the_graph_fails_is_told_with_the_reason() -> None:
    class OneSize(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.view(2, -1, 4)

    found = latency_by_size(OneSize(), OneSize(), ((2, 3), (1, 1)), inputs_of, rounds=6)
    good, bad = found.at
    assert good.report is not None
    assert "shape" in bad.failure
    assert bad.kind == "not measured"
    assert found.measured == (good,)


def test_a_size_without_time_for_rounds_gives_no_answer() -> None:
    found = LatencyBySize((AtSize(1, 8, report_of([])), AtSize(8, 8, report_of([Round(2.0, 1.0, 2.0)] * 5))))
    assert [one.kind for one in found.at] == ["too few rounds"] * 2
    assert not found.measured
    assert found.verdict == "no size could be measured"


def test_a_cancelled_search_keeps_the_sizes_that_are_done() -> None:
    model = nn.Linear(4, 4).eval()
    found = latency_by_size(model, model, ((1, 1), (2, 1)), inputs_of, rounds=6, on_progress=lambda share: share <= 0.5)
    assert [one.batch for one in found.at] == [1]
    assert found.stopped == "cancelled"


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        (
            (1.5, 1.2, 0.5),
            "faster at 2, the most at batch 1 (1.50x); slower at 1, the most at batch 4 (2.00x); of 3 sizes that were "
            "measured",
        ),
        ((1.0, 1.0), "no difference shown at any of 2 sizes"),
        ((), "no size could be measured"),
    ],
)  # fmt: skip
def test_the_verdict_names_the_sizes_at_which_it_pays_most(ratios: tuple[float, ...], verdict: str) -> None:
    found = LatencyBySize(tuple(AtSize(2**i, None, report(ratio)) for i, ratio in enumerate(ratios)))
    assert found.verdict == verdict


def test_sizes_stay_within_the_limits_and_move_along_what_is_free() -> None:
    assert sizes_around((2, 16), (None, (1, 16))) == ((2, 4), (2, 8), (2, 16))
    assert sizes_around((2, 16), (None, None)) == ((2, 16),)
    assert {batch for batch, _ in sizes_around((2, 16), ((2, 4), (1, 32)))} == {2, 4}
