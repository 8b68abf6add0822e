"""Bisection by site: the sites to blame, by real runs."""

from __future__ import annotations

import random
from collections.abc import Collection

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.fx import GraphModule

import fxopt
from fxopt import Workbench
from fxopt.core import Exactness, Pass
from fxopt.edits import ReplaceModule, SetArgument
from fxopt.evidence.bisect import smallest_failing
from fxopt.evidence.latency_report import LatencyReport, Round, report_of
from fxopt.models import model_source
from fxopt.rules import rewrite
from fxopt.workbench.bisecting import Place, bisect

RELUS = ("stem", "residual_first", "residual", "forked", "pre_norm", "head")


@given(st.lists(st.sets(st.integers(0, 30), min_size=1, max_size=4), min_size=1, max_size=3))
def test_a_smallest_set_fails_and_no_member_can_go(causes: list[set[int]]) -> None:
    asked = []

    def fails(parts: tuple[int, ...]) -> bool:
        asked.append(parts)
        return any(cause <= set(parts) for cause in causes)

    found = smallest_failing(range(31), fails)
    assert len(set(asked)) == len(asked)
    assert fails(found)
    assert not any(fails(tuple(set(found) - {one})) for one in found)


def test_one_of_many_is_found_in_a_few_runs() -> None:
    culprit, asked = random.Random(0).randrange(1000), []

    def fails(parts: Collection[int]) -> bool:
        asked.append(parts)
        return culprit in parts

    assert smallest_failing(range(1000), fails) == (culprit,)
    assert len(asked) <= 20


def challenge() -> tuple[Workbench, tuple[Tensor, ...]]:
    """Return the model of the lesson, in which six of the changes are harmless but one."""
    source = model_source("digits_conv_net")
    model = source.build()
    args, _ = source.inputs(model)
    wb = Workbench(model, args)
    wb.turn_on("FoldBatchNorm")
    for name in RELUS:
        wb.edit(ReplaceModule(f"{name}_relu", "ReLU6"))
    return wb, args


@pytest.mark.slow
def test_the_one_edit_that_breaks_the_challenge_is_found_among_folds_and_edits() -> None:
    wb, args = challenge()
    before, shares = fxopt.fingerprint(wb.current), []
    found = bisect(wb, args, on_progress=lambda share: shares.append(share) is None)
    assert found.groups == ((Place("ReplaceModule(forked_relu, ReLU6)", "forked_relu"),),)
    assert len(found.tried) <= 9
    assert found.stopped is None
    assert "ReplaceModule(forked_relu, ReLU6) breaks the outputs; without: within" in found.verdict
    assert shares == sorted(shares)
    assert fxopt.fingerprint(wb.current) == before
    wb.choose(found.choices)
    assert sum(state.sites_on for state in wb.states) == len(found.tried[0].sites) - 1
    assert bisect(wb, args).verdict.startswith("no site breaks the outputs: within")


class Capped(nn.Module):
    """A cap that stands there twice."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.clamp(torch.clamp(x * 10, None, 1.0), None, 1.0) / 4


def test_changes_that_break_it_only_together_are_one_group_and_others_are_groups_of_their_own() -> None:
    x = torch.linspace(0, 1, 6).view(2, 3)
    wb = Workbench(Capped(), (x,))
    wb.edit(SetArgument("clamp", "args[2]", 5.0))
    wb.edit(SetArgument("clamp_1", "args[2]", 5.0))
    wb.edit(SetArgument("mul", "args[1]", 10.0))
    wb.edit(SetArgument("truediv", "args[1]", 5.0))
    found = bisect(wb, (x,))
    groups = [[place.site for place in group] for group in found.groups]
    assert sorted(groups) == [["clamp", "clamp_1"], ["truediv"]]
    assert " with " in found.verdict


def test_a_pass_that_promises_the_very_bits_is_held_to_them() -> None:
    @rewrite(exactness=Exactness.BITWISE)
    def halve(x: Tensor):  # type: ignore[no-untyped-def]
        """Replace `x / 3` with `x * (1 / 3)`, whose last bit may differ."""
        yield x / 3
        return x * (1 / 3)

    class Thirds(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return x / 3, (x * 0) / 3

    x = torch.rand(2, 300)
    pass_: Pass[object] = halve
    wb = Workbench(Thirds(), (x,), passes=[pass_])
    wb.turn_on(pass_)
    found = bisect(wb, (x,))
    assert [place.site for place in found.culprits] == ["truediv"]
    assert wb.state_of(pass_).sites_on == 2


def broken() -> tuple[Workbench, tuple[Tensor, ...]]:
    x = torch.linspace(0, 1, 6).view(2, 3)
    wb = Workbench(Capped(), (x,))
    wb.edit(SetArgument("mul", "args[1]", 10.0))
    wb.edit(SetArgument("truediv", "args[1]", 5.0))
    return wb, (x,)


@pytest.mark.parametrize("calls", [0, 3])
def test_it_stops_when_it_is_asked_to(calls: int) -> None:
    wb, args = broken()
    left = iter([True] * calls)
    found = bisect(wb, args, on_progress=lambda share: next(left, False))
    assert (found.stopped, found.groups, found.choices) == ("cancelled", (), wb.choices)
    assert found.verdict.startswith("no answer: stopped early (cancelled)")


def test_it_stops_when_its_time_is_over() -> None:
    wb, args = broken()
    assert bisect(wb, args, budget=1e-6).stopped == "out of time (1e-06 s)"


def test_the_site_that_makes_it_slower_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    wb, args = broken()

    def measured(before: GraphModule, after: GraphModule, *_: object, **options: object) -> LatencyReport:
        is_slow = any(node.args[1:] == (5.0,) for node in after.graph.nodes)
        return report_of([Round(1.0, 1.5 if is_slow else 0.9, 1.0)] * 9)

    monkeypatch.setattr("fxopt.workbench.bisecting.measure", measured)
    found = bisect(wb, args, question="latency")
    assert [place.site for place in found.culprits] == ["truediv"]
    assert "makes it slower; without: 1.11x faster" in found.verdict


def test_a_measurement_that_ends_early_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    wb, args = broken()
    cut = report_of([Round(1.0, 1.5, 1.0)] * 2, stopped="out of time (3 s)")
    monkeypatch.setattr("fxopt.workbench.bisecting.measure", lambda *args, **kwargs: cut)
    assert bisect(wb, args, question="latency", budget=3).verdict == (
        "no answer: stopped early (out of time (3 s)) after 0 runs"
    )
