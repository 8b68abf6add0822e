"""Times of nodes, by a clock that the modules themselves move on."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule, symbolic_trace

import fxopt
from fxopt.core import fingerprint
from fxopt.evidence import EvidenceError, NodeTimes, RunStoppedError, node_times


class Clock:
    """Stands still but for the modules that move it, and for its own reads, which take 7 ns each."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        self.now += 7
        return self.now


class Takes(nn.Module):
    """Takes some nanoseconds."""

    def __init__(self, clock: Clock, nanoseconds: int) -> None:
        super().__init__()
        self.clock, self.nanoseconds = clock, nanoseconds

    def forward(self, x: Tensor) -> Tensor:
        self.clock.now += self.nanoseconds
        return x + 1


class Leaf(torch.fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, Takes)


def timed(rounds: int = 3) -> NodeTimes:
    clock = Clock()

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.slow, self.quick = Takes(clock, 3000), Takes(clock, 1000)

        def forward(self, x: Tensor) -> Tensor:
            return self.quick(self.slow(x)) + self.quick(x)

    model = Model()
    gm = GraphModule(model, Leaf().trace(model))
    return node_times(gm, (torch.zeros(2),), rounds=rounds, clock=clock)


def test_a_node_takes_the_time_between_two_reads_of_the_clock_without_that_of_a_read() -> None:
    times = timed()
    expected = {"x": 0, "slow": 3000, "quick": 1000, "quick_1": 1000, "add": 0, "output": 0}
    assert {name: round(seconds * 1e9) for name, seconds in times.seconds.items()} == expected
    assert round(times.whole * 1e9) == 5000 + 7
    assert times.rounds == 3
    assert times.share(["slow", "slow"]) == pytest.approx(0.6), "a node counts once"


def test_times_are_costs_with_a_critical_path() -> None:
    costs = timed().costs
    assert costs.of("slow") == 3000
    assert "add" not in costs.parts
    assert costs.told(costs.of_all(["slow", "quick"])) == "4 us"


def test_tables_begin_with_what_takes_most() -> None:
    times = timed()
    assert list(times.frame["node"][:3]) == ["slow", "quick", "quick_1"]
    assert dict(zip(times.by_call["calls"], times.by_call["nodes"])) == {
        "Takes": 3, "placeholder": 1, "operator.add": 1, "output": 1,
    }  # fmt: skip
    assert times.by_call["share"].sum() == pytest.approx(1)


def test_modules_are_told_apart_to_a_depth() -> None:
    model = nn.Sequential(nn.Sequential(nn.Linear(8, 8), nn.ReLU()), nn.Linear(8, 8))
    times = node_times(fxopt.capture(model.eval(), (torch.rand(2, 8),)), (torch.rand(2, 8),), rounds=2)
    assert set(times.by_module()["module"]) == {"", "0"}
    assert times.by_module(0)["nodes"].sum() == len(times.seconds)


def test_every_node_that_computes_has_a_time_and_the_graph_is_left_as_it_was() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten())
    image = torch.rand(1, 3, 8, 8)
    gm = symbolic_trace(model)  # in training mode, where a run moves the running mean
    before, given = fingerprint(gm), image.clone()
    times = node_times(gm, (image,), rounds=2)
    assert fingerprint(gm) == before
    assert torch.equal(image, given)
    assert list(times.seconds) == [node.name for node in gm.graph.nodes]
    assert all(times.seconds[name] > 0 for name in ("_0", "_1", "_2", "_3"))


def test_a_measurement_is_cancelled_between_two_calls() -> None:
    gm = symbolic_trace(nn.Linear(2, 2))
    with pytest.raises(RunStoppedError, match="cancelled"):
        node_times(gm, (torch.rand(1, 2),), on_progress=lambda share: share < 0.5)


def test_no_rounds_are_refused() -> None:
    with pytest.raises(EvidenceError, match="0 rounds measure nothing"):
        node_times(symbolic_trace(nn.Linear(2, 2)), (torch.rand(1, 2),), rounds=0)


def test_a_graph_that_writes_to_its_input_finds_it_as_it_was_in_every_round() -> None:
    seen: list[float] = []

    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.add_(1)

    gm = symbolic_trace(Model())
    gm.register_forward_hook(lambda module, args, output: seen.append(float(output[0])))
    x = torch.zeros(2)
    node_times(gm, (x,), rounds=3)
    assert set(seen) == {1.0}
    assert not x.any()


def test_it_ends_with_the_rounds_that_the_budget_allows() -> None:
    times = node_times(symbolic_trace(nn.Linear(2, 2)), (torch.rand(1, 2),), rounds=1000, budget=0.0)
    assert times.rounds == 1
