"""The memory and work of a run, foreseen without data, against those of a real one."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.fx import symbolic_trace

from fxopt.core import fingerprint
from fxopt.evidence import EvidenceError, demand_of
from fxopt.evidence.running import RunStoppedError, run, stopping_unless


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x: Tensor) -> Tensor:
        scores = torch.softmax(self.query(x) @ self.key(x).transpose(1, 2), -1)
        return (scores @ x).relu() + x


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 4096), nn.GELU(), nn.Linear(4096, 64))


def convolutions() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1))


# Tensors of over 32 MB: glibc takes new pages for each, so the peak of the process is that of the tensors.
CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], str]] = {
    "attention": (Attention, (8, 1100, 64), "softmax"),
    "perceptron": (perceptron, (2200, 64), "_1"),
    "convolutions": (convolutions, (4, 3, 224, 224), "_3"),
}


def in_status(entry: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(entry))


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of this process from /proc")
@pytest.mark.parametrize("name", CASES)
def test_the_peak_is_that_of_a_real_run(name: str) -> None:
    make, shape, node = CASES[name]
    gm, x = symbolic_trace(make().eval()), torch.rand(shape)
    foreseen = demand_of(gm, (x,))
    assert foreseen.at == node
    assert foreseen.peak_bytes == demand_of(make().eval(), (x,)).peak_bytes
    with torch.no_grad():
        gm(x[:1])
        before = in_status("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # the peak is from here on
        gm(x)
    measured = in_status("VmHWM") - before
    assert 0.8 * measured < foreseen.peak_bytes < 1.25 * measured


def test_a_value_is_freed_after_its_last_use_and_a_view_costs_nothing() -> None:
    class Chain(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            first = x + 1
            second = first.view(-1)
            third = second * 2
            return third[:10] - 1

    live = demand_of(symbolic_trace(Chain()), (torch.rand(1000),)).live
    assert live == {"x": 0, "add": 4000, "view": 4000, "mul": 8000, "getitem": 4000, "sub": 4040, "output": 40}


def test_work_is_counted_and_nothing_is_changed() -> None:
    gm = symbolic_trace(perceptron().train())
    x, before = torch.rand(8, 64), copy.deepcopy(gm)
    told = fingerprint(gm)
    assert demand_of(gm, (x,)).flops >= 2 * 2 * 8 * 64 * 4096
    assert fingerprint(gm) == told
    assert torch.equal(gm(x), before(x))


def test_sizes_of_terabytes_are_foreseen_without_taking_them() -> None:
    x = torch.zeros(1).expand(10**6, 10**6)
    assert demand_of(nn.ReLU(), (x,)).peak_bytes == 4 * 10**12


def test_a_model_that_asks_for_a_number_has_no_foreseen_demand_and_stays_as_it_was() -> None:
    class Asks(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            self.kept = x * 2
            return x if x.sum() > 0 else -x

    model = Asks()
    with pytest.raises(EvidenceError, match="the demand depends on the data"):
        demand_of(model, (torch.ones(2),))
    assert not hasattr(model, "kept")


def test_a_run_that_nobody_waits_for_ends_between_two_calls_and_leaves_the_model_as_it_was() -> None:
    calls: list[int] = []

    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x: Tensor) -> Tensor:
            for step in range(10):
                calls.append(step)
                self.count += 1
                x = x + self.count
            return x

    model, asked = Counts(), iter([True] * 8)
    with stopping_unless(lambda: next(asked, False)), pytest.raises(RunStoppedError):
        run(model, (torch.ones(2),), {})
    assert calls == [0, 1, 2, 3, 4]
    assert model.count == 0


def test_a_run_that_is_waited_for_has_the_same_bits() -> None:
    model, x = Attention(), torch.rand(2, 5, 64)
    with stopping_unless(lambda: True):
        watched = run(model, (x,), {})
    assert torch.equal(watched, run(model, (x,), {}))
