"""Ceilings: what a pass can bring at most, by the times of the nodes that it rewrites."""

import math

import pytest
import torch
from torch import nn

import fxopt
from fxopt.evidence import NodeTimes, node_times
from fxopt.workbench.ceilings import Ceiling, ceiling, ceilings


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.out = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.drop = nn.Dropout()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(self.out(self.q(x) * self.k(x)))


X = torch.randn(2, 8)
SECONDS = {"x": 0.0, "q": 3.0, "k": 2.0, "mul": 1.0, "out": 3.0, "drop": 1.0, "output": 0.0}


def test_a_pass_can_save_the_time_of_the_nodes_that_it_rewrites() -> None:
    bench = fxopt.Workbench(Net().eval(), (X,))
    names = dict.fromkeys(SECONDS, "")
    assert [node.name for node in bench.pristine.graph.nodes] == list(SECONDS)
    found = ceilings(NodeTimes(SECONDS, names, names, 10.0, 1), bench.states)
    assert found["MergeLinears"].share == pytest.approx(0.5)
    assert found["MergeLinears"].speedup == pytest.approx(2)
    assert found["RemoveIdentities"].share == pytest.approx(0.1)
    assert found["PackLinears"].share == pytest.approx(0.8)
    assert "FoldBatchNorm" not in found


def test_sites_that_share_nodes_count_them_once() -> None:
    bench = fxopt.Workbench(Net().eval(), (X,))
    sites = next(state.sites for state in bench.states if state.name == "PackLinears")
    times = node_times(bench.pristine, (X,), rounds=3)
    assert ceiling(times, (*sites, *sites)) == ceiling(times, sites)
    assert 0 < ceiling(times, sites[0]).share < ceiling(times, sites).share < 1


def test_all_of_the_time_has_no_ceiling() -> None:
    assert Ceiling(1.0).speedup == math.inf
    assert str(Ceiling(1.0)) == "all of the time"
    assert Ceiling(0.0).speedup == 1
