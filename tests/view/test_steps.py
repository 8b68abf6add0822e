"""The steps of a rewrite: one for each site that is seen, and one for each folded module that hides some."""

from __future__ import annotations

import torch
from torch import nn

from fxopt import Workbench
from fxopt.view import GraphView, Side, visible
from fxopt.view.comparison import Comparison
from fxopt.view.steps import Step, steps_of

MERGE = "MergeLinears"


class Twins(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.q(x) * self.k(x)


def steps(*unfolded: str) -> tuple[tuple[Step, ...], Comparison]:
    wb = Workbench(nn.Sequential(Twins(), Twins()).eval(), (torch.rand(2, 4),))
    wb.turn_on(MERGE)
    before, after = (visible(GraphView.of(gm), frozenset(unfolded)) for gm in (wb.pristine, wb.current))
    both = Comparison.of(before, after)
    sites = [(f"{MERGE} at {one.site}", (*one.created, *one.changed, *one.removed)) for one in wb.state_of(MERGE).sites]
    return steps_of(sites, both.seen_from(Side.BEFORE), both.graph), both


def test_each_site_that_is_seen_is_a_step_with_its_boxes_before_and_after() -> None:
    found, both = steps("0", "1")
    assert [step.told for step in found] == [f"{MERGE} at _0_q", f"{MERGE} at _1_q"]
    first, second = (set(step.boxes) for step in found)
    assert not first & second
    assert first | second == {*both.removed, *both.created}


def test_the_sites_in_a_folded_module_are_one_step_behind_those_that_are_seen() -> None:
    found, both = steps("0")
    assert [step.told for step in found] == [f"{MERGE} at _0_q", f"{MERGE} at _1_q, in the folded module 1"]
    assert [both.graph.items[box].path for box in found[1].boxes] == ["1"]
    found, both = steps()
    assert [step.told for step in found] == [
        f"{MERGE} at _0_q, in the folded module 0",
        f"{MERGE} at _1_q, in the folded module 1",
    ]
    assert not set(found[0].boxes) & set(found[1].boxes)


def test_sites_in_one_folded_module_are_told_of_by_their_number() -> None:
    wb = Workbench(nn.Sequential(nn.Sequential(Twins(), Twins())).eval(), (torch.rand(2, 4),))
    wb.turn_on(MERGE)
    before, after = (visible(GraphView.of(gm)) for gm in (wb.pristine, wb.current))
    both = Comparison.of(before, after)
    sites = [(one.site, (*one.created, *one.changed, *one.removed)) for one in wb.state_of(MERGE).sites]
    (step,) = steps_of(sites, both.seen_from(Side.BEFORE), both.graph)
    assert step.told == "2 sites, in the folded module 0"
