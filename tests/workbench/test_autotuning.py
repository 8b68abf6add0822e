"""Autotuning: a site stays on only where it is shown to pay."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule

import fxopt
from fxopt import Recipe, Workbench
from fxopt.evidence.latency_report import Round, report_of
from fxopt.workbench.autotuning import autotune

X = torch.rand(4, 8)
Times = Callable[[GraphModule], dict[str, float]]


class Blocks(nn.Module):
    """Two alike blocks with an identity each, and a division."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.second(torch.relu(self.first(x)) * 1) * 1
        return x / 3


def bench(*passes: str) -> Workbench:
    wb = Workbench(Blocks().eval(), (X,))
    for name in passes:
        wb.turn_on(name)
    return wb


def faked(monkeypatch: pytest.MonkeyPatch, seconds: Times, whole: float = 0.5, rounds: int = 9) -> None:
    """Let nodes take `seconds`, and the whole `whole` of the original."""

    def paired(
        before: GraphModule, after: GraphModule, *_: object, **options: Any
    ) -> list[tuple[dict[str, float], ...]]:
        options["on_progress"](0.5)
        return [(seconds(before), seconds(after))] * rounds

    monkeypatch.setattr("fxopt.workbench.autotuning.paired_node_times", paired)
    report = report_of([Round(1.0, whole, 1.0)] * 9)
    monkeypatch.setattr("fxopt.workbench.autotuning.measure", lambda *args, **kwargs: report)


def each(gm: GraphModule, **seconds: float) -> dict[str, float]:
    """Return a second for each node, and other numbers for those that are named, or called so, in this graph."""
    return {
        node.name: seconds.get(node.name, seconds.get(type(gm.get_submodule(str(node.target))).__name__, 1.0))
        if node.op == "call_module"
        else seconds.get(node.name, 1.0)
        for node in gm.graph.nodes
    }


def test_sites_that_pay_stay_and_others_go_and_the_choices_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    wb = bench("RemoveIdentities", "PackLinears")
    faked(monkeypatch, lambda gm: each(gm, PackedLinear=3.0))
    found = autotune(wb, (X,))
    assert [(one.pass_name, one.kept) for one in found.sites] == [
        ("RemoveIdentities", True),
        ("PackLinears", False),
        ("PackLinears", False),
    ]
    assert str(found.sites[0]) == "RemoveIdentities at mul and 1 like it: kept, saves 2e+06 us [2e+06, 2e+06]"
    assert "sites pay; the whole: 2.00x faster" in found.verdict
    before = fxopt.fingerprint(wb.current)
    wb.choose(found.choices)
    assert [state.sites_on for state in wb.states if state.name == "PackLinears"] == [0]
    kept = fxopt.fingerprint(wb.current)
    assert kept != before
    other = Workbench(wb.pristine)
    Recipe.from_json(Recipe.of(wb).to_json()).replay(other)
    assert fxopt.fingerprint(other.current) == kept


def test_alike_sites_share_a_decision_and_the_workbench_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    wb = bench("PackLinears")
    before = wb.choices
    faked(monkeypatch, lambda gm: each(gm, PackedLinear=0.2))
    found = autotune(wb, (X,))
    assert wb.choices == before
    # one of them computes the relu as well, so they are two kinds
    assert [one.sites for one in found.sites] == [("first",), ("second",)]
    assert found.kept == 2
    row = found.frame.iloc[0]
    assert row["saves us"] == pytest.approx(1.8e6)
    assert math.isfinite(row["low us"])


def test_a_site_goes_where_its_readers_are_slower_by_more_than_it_saves(monkeypatch: pytest.MonkeyPatch) -> None:
    wb = bench("ChangeTrueDivToMulByInverse", "PackLinears")
    is_packed = lambda gm: type(gm.get_submodule("second")).__name__ == "PackedLinear"  # noqa: E731
    faked(monkeypatch, lambda gm: each(gm, PackedLinear=0.5, mul_1=5.0 if is_packed(gm) else 1.0))
    found = {one.sites: one for one in autotune(wb, (X,)).sites}
    site = found[("second",)]
    assert not site.kept
    assert "the nodes that read it are slower" in site.reason


def test_nothing_stays_where_the_whole_is_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    faked(monkeypatch, lambda gm: each(gm, PackedLinear=0.2), whole=2.0)
    wb = bench("PackLinears")
    found = autotune(wb, (X,))
    assert (found.kept, found.choices) == (0, wb.reversed)
    assert "but all together is slower" in str(found.sites[0])


def test_too_few_rounds_are_no_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    faked(monkeypatch, lambda gm: each(gm, PackedLinear=3.0), rounds=5)
    wb = bench("PackLinears")
    found = autotune(wb, (X,), budget=3)
    assert (found.choices, found.stopped) == (wb.choices, "out of time (3 s)")
    assert found.sites[0].reason == "not measured"


@pytest.mark.parametrize("calls", [0, 1])
def test_it_stops_when_it_is_asked_to(calls: int) -> None:
    wb = bench("PackLinears")
    left = iter([True] * calls)
    found = autotune(wb, (X,), on_progress=lambda share: next(left, False))
    assert found.stopped == "cancelled"
    assert found.choices == wb.choices


def test_edits_by_hand_are_judged_like_passes() -> None:
    wb = bench("RemoveIdentities")
    edit = wb.edit(fxopt.edits.SetArgument("truediv", "args[1]", 4.0))
    shares: list[float] = []
    found = autotune(wb, (X,), budget=0.5, on_progress=lambda share: shares.append(share) is None)
    assert edit.name in [one.pass_name for one in found.sites]
    assert shares == sorted(shares)
    assert json.loads(found.frame.to_json())["pass"]
    wb.choose(found.choices, wb.edits)
