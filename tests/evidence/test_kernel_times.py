"""The time of a node in kernels is told apart from Python and dispatch."""

import time
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx import GraphModule

import fxopt
from fxopt.evidence import EvidenceError, NodeTimes, node_times
from fxopt.evidence.kernel_times import computes, kernels_in_a_call

SMALL, LARGE = torch.rand(2, 2), torch.rand(600, 600)


@torch.fx.wrap
def idle(x: torch.Tensor) -> torch.Tensor:
    """Keep Python busy for 3 ms of CPU time."""
    end = time.thread_time() + 0.003
    while time.thread_time() < end:
        pass
    return x


class Model(nn.Module):
    """A large product, Python without a kernel, small kernels behind views, and a view."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        z = x.mm(x)
        a = idle(y)
        b = a.view(-1).neg()
        return z, b, y.t()


def graph() -> GraphModule:
    return torch.fx.symbolic_trace(Model())


def measured() -> NodeTimes:
    return node_times(graph(), (LARGE, SMALL), rounds=3, kernels=True)


def test_a_large_product_is_kernel_and_python_and_views_are_none() -> None:
    times = measured()
    assert times.kernels is not None
    assert times.kernels["mm"] > 0.7 * times.seconds["mm"]
    assert times.kernels["idle"] == times.kernels["view"] == times.kernels["t"] == 0
    assert times.seconds["idle"] > 0.003
    assert 0 < times.kernels["neg"] <= times.seconds["neg"]
    assert times.kernel_share == pytest.approx(sum(times.kernels.values()) / times.total)


def test_the_tables_have_both_parts_of_each_time() -> None:
    times = measured()
    for table in (times.frame, times.by_call, times.by_module()):
        assert [*table.columns][-2:] == ["kernel_us", "overhead_us"]
        assert table["kernel_us"].add(table["overhead_us"]).tolist() == pytest.approx(table["us"].tolist())
        assert table["overhead_us"].min() >= 0
    costs = times.costs
    assert costs.kernels is not None
    assert costs.kernels.of("mm") == pytest.approx(1e9 * (times.kernels or {})["mm"], abs=1)
    assert "idle" not in costs.kernels.parts


def test_without_the_profiler_there_is_one_time() -> None:
    times = node_times(graph(), (LARGE, SMALL), rounds=1)
    assert (times.kernels, times.kernel_share, times.costs.kernels) == (None, None, None)
    assert [*times.frame.columns] == ["node", "calls", "module", "us", "share"]


def test_layers_count_by_the_operators_within_them() -> None:
    model = nn.Sequential(nn.Linear(512, 512), nn.LayerNorm(512), nn.Dropout()).eval()
    gm = fxopt.capture(model, (torch.rand(256, 512),))
    times = node_times(gm, (torch.rand(256, 512),), rounds=2, kernels=True)
    assert times.kernels is not None
    assert min(times.kernels["_0"], times.kernels["_1"]) > 0
    assert times.kernels["_2"] == 0, "a dropout in evaluation mode computes nothing"
    fxopt.PackLinears()(gm)
    packed = node_times(gm, (torch.rand(256, 512),), rounds=2, kernels=True)
    assert packed.kernels is not None
    assert packed.kernels["_0"] > 0


def test_calls_under_the_profiler_can_be_cancelled_and_the_profiler_ends(capfd: pytest.CaptureFixture[str]) -> None:
    seen: list[float] = []

    def told(share: float) -> bool:
        seen.append(share)
        return share < 1 / 2

    with pytest.raises(fxopt.FxoptError, match="cancelled"):
        node_times(graph(), (LARGE, SMALL), rounds=1, kernels=True, on_progress=told)
    assert seen[-1] >= 1 / 2
    assert not torch._C._autograd._profiler_enabled()
    gm = graph()
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        kernels_in_a_call(gm, ((torch.rand(2, 3), SMALL), {}))
    assert not torch._C._autograd._profiler_enabled()
    assert capfd.readouterr().err == ""


def test_a_profiler_that_runs_already_is_a_reason() -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]), pytest.raises(EvidenceError) as told:
        node_times(graph(), (LARGE, SMALL), rounds=1, kernels=True)
    assert "a profiler of torch is running" in str(told.value)


COMPUTE = ("aten::addmm", "aten::relu_", "aten::native_layer_norm", "mkldnn::_linear_pointwise")
OTHERS = ("aten::linear", "aten::slice", "aten::empty_strided", "aten::expand", "a range of one's own", "own::unknown")


@pytest.mark.parametrize("operator", [*COMPUTE, *OTHERS])
def test_operators_that_compute_are_told_from_those_that_call_others_give_views_or_allocate(operator: str) -> None:
    assert computes(operator) is (operator in COMPUTE)
