"""The sites of a pass that a later one rewrites, while it leaves them off."""

from __future__ import annotations

import torch
from torch import nn
from torch.fx import symbolic_trace

from fxopt import FoldBatchNorm, FuseBatchNorm2dInConv2d, FuseBiasInLinear, Workbench
from fxopt.workbench.takeover import taken_over

FIRST, LATER, OTHER = FuseBatchNorm2dInConv2d(), FoldBatchNorm(), FuseBiasInLinear()


def bench() -> Workbench:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Conv2d(2, 2, 3), nn.BatchNorm2d(2)).eval()
    return Workbench(symbolic_trace(model), passes=[FIRST, LATER, OTHER])


def told(bench: Workbench, name: str) -> dict[str, int]:
    return dict(taken_over(bench.states, bench.state_of(name)))


def test_a_later_pass_takes_over_the_sites_that_an_earlier_one_leaves_off() -> None:
    wb = bench()
    assert told(wb, FIRST.name) == {}
    wb.turn_on(LATER.name)
    assert told(wb, FIRST.name) == {LATER.name: 2}
    assert told(wb, OTHER.name) == {}
    wb.turn_on(FIRST.name, wb.state_of(FIRST.name).sites[0].site)
    assert told(wb, FIRST.name) == {LATER.name: 1}, "its own site is its own"


def test_an_earlier_pass_takes_nothing_over_from_a_later_one() -> None:
    wb = bench()
    wb.turn_on(FIRST.name)
    assert told(wb, LATER.name) == {}
