"""Forwards as people write them: each is captured right, at any batch."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrize

from fxopt.tracing import CaptureError, capture, rungs
from tests.quick import quick, third
from tests.tracing.forwards import LoopsInGenerator, assert_right
from tests.tracing.zoo import Perceptron, build, vector


class ReadsGenerator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.steps = LoopsInGenerator()

    def forward(self, x):
        return torch.cat(list(self.steps(x)), 1)


def scripted(something: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is deprecated, and people have it
        return torch.jit.script(something)


def doubled(x: torch.Tensor):
    return x * 2 + x.sum()


class CallsScript(Perceptron):
    double = staticmethod(scripted(doubled))

    def forward(self, x):
        return self.first(self.double(x))


class HoldsScriptModule(Perceptron):
    def __init__(self) -> None:
        super().__init__()
        self.scripted = scripted(nn.Sequential(nn.Linear(8, 8), nn.ReLU()))

    def forward(self, x):
        return self.first(self.scripted(x) if x.shape[0] else x)


class Scales(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        return x * factor, x.clone()

    @staticmethod
    def backward(ctx, *grads):
        return grads[0], None


class CallsFunction(Perceptron):
    def forward(self, x):
        scaled, same = Scales.apply(self.first(x), 3)
        return scaled + same


class MapsLayer(Perceptron):
    def forward(self, x):
        return torch.vmap(self.first)(x)


class DifferentiatesInside(Perceptron):
    def forward(self, x):
        return torch.func.grad(lambda y: self.first(y).pow(2).sum())(x)


class ReplacesParameters(Perceptron):
    def forward(self, x):
        weights = {"weight": self.first.weight * 2, "bias": self.first.bias}
        return torch.func.functional_call(self.first, weights, (x,))


class MakesLinear(Perceptron):
    def forward(self, x):
        torch.manual_seed(0)
        return nn.Linear(16, 4)(self.first(x))


class CopiesLayer(Perceptron):
    def forward(self, x):
        return copy.deepcopy(self.first)(x)


class KeepsLayersInList(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Linear(8, 8), nn.Linear(8, 8)]

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class KeywordNames(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        setattr(self, "lambda", nn.Linear(8, 8))
        setattr(self, "class", nn.Parameter(torch.full((8,), 2.0)))
        self.register_buffer("def", torch.ones(8))

    def forward(self, x):
        return getattr(self, "lambda")(x) * getattr(self, "class") + getattr(self, "def")


class Checkpoints(Perceptron):
    def forward(self, x):
        return torch.utils.checkpoint.checkpoint(self.second, self.first(x), use_reentrant=False)


class TrapInProperty(Perceptron):
    @property
    def trap(self):
        self.touched = getattr(self, "touched", 0) + 1
        return 2.0

    def forward(self, x):
        return self.first(x) * self.trap


class SharesWeight(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 8)
        self.head = nn.Linear(8, 10, bias=False)
        self.head.weight = self.embedding.weight
        self.alias = self.head

    def forward(self, x):
        return self.alias(self.embedding(x.long().abs() % 10))


class InParallel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.DataParallel(build(Perceptron))

    def forward(self, x):
        return self.inner(x)


class ParameterContainers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.several = nn.ParameterList([nn.Parameter(torch.full((8,), float(i))) for i in range(3)])
        self.named = nn.ParameterDict({"a": torch.ones(8), "b": nn.Parameter(torch.ones(8) * 2)})

    def forward(self, x):
        for parameter in self.several:
            x = x + parameter
        return x * self.named["a"] + self.named["b"]


class ManyTypes(Perceptron):
    def forward(self, x):
        y = self.first(x)
        return torch.fft.fft(y), y.argmax(-1), y > 0, torch.complex(x, x), y.double(), torch.linalg.svd(x), y.max(1)


class CountsCalls(Perceptron):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.long))
        self.register_buffer("average", torch.zeros(16))

    def forward(self, x):
        self.count.add_(1)
        y = self.first(x)
        self.average.mul_(0.9).add_(y.mean(0).detach(), alpha=0.1)
        return y + self.average / self.count


class DrawsNumbers(Perceptron):
    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(3)

    def forward(self, x):
        noise = torch.randn(x.shape[0], 16) + torch.randint(0, 5, (16,)) + torch.bernoulli(torch.full((16,), 0.5))
        return F.dropout(self.first(x), 0.5) + noise


class UsesNumpy(Perceptron):
    def forward(self, x):
        return self.first(x) * np.float32(2) + torch.from_numpy(np.arange(16, dtype=np.float32)) / np.sqrt(16)


class WritesInputs(Perceptron):
    def forward(self, x):
        x[:, 0] = 0
        x.relu_()
        return self.first(x), x


class FillsRows(nn.Module):
    def forward(self, x):
        rows = torch.zeros(4, x.shape[0], 8)
        for i in range(4):
            rows[i] = x * i
        return rows


class PicksRows(Perceptron):
    def forward(self, x):
        return self.first(x[x.sum(1) > -100])


class Sparse(Perceptron):
    def forward(self, x):
        return self.first(x).to_sparse()


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).T


class ParametrizedRoot(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8))
        parametrize.register_parametrization(self, "weight", Symmetric())

    def forward(self, x):
        return x @ self.weight


class HookedRoot(Perceptron):
    def __init__(self) -> None:
        super().__init__()
        self.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
        self.register_forward_hook(lambda module, args, output: output * 2)


class RunsCompiled(Perceptron):
    def __init__(self) -> None:
        super().__init__()
        self.compiled = torch.compile(nn.Linear(8, 4), backend="eager")

    def forward(self, x):
        return self.compiled(x)


class TriesFirst(Perceptron):
    def forward(self, x):
        try:
            return self.second(x)
        except RuntimeError:
            return self.first(x)


class CallsItself(Perceptron):
    def forward(self, x, depth=2):
        return self(x, depth - 1) + 1 if depth else self.first(x)


class NestedAutocast(Perceptron):
    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            with torch.autocast("cpu", enabled=False):
                x = self.first(x)
            return self.second(x)


class DecoratedAutocast(Perceptron):
    @torch.autocast("cpu", dtype=torch.bfloat16)
    def forward(self, x):
        return self.second(self.first(x))


RIGHT = (
    ReadsGenerator, CallsScript, HoldsScriptModule, CallsFunction, MapsLayer, DifferentiatesInside, ReplacesParameters,
    MakesLinear, CopiesLayer, KeepsLayersInList, KeywordNames, Checkpoints, TrapInProperty, SharesWeight, InParallel,
    ParameterContainers, ManyTypes, CountsCalls, DrawsNumbers, UsesNumpy, WritesInputs, FillsRows, PicksRows, Sparse,
    ParametrizedRoot, HookedRoot, RunsCompiled, TriesFirst, CallsItself, NestedAutocast, DecoratedAutocast,
)  # fmt: skip


@pytest.mark.parametrize("kind", third(RIGHT))
def test_the_graph_answers_as_the_model_does_at_any_batch(kind: type[nn.Module]) -> None:
    report = assert_right(build(kind), 1, 6)
    assert report.verified
    assert "batch" in report.free or any("shapes stop at" in note for note in report.notes)


@pytest.mark.parametrize("kind", [CallsScript, MakesLinear, NestedAutocast, WritesInputs, CountsCalls])
@pytest.mark.parametrize("rung", quick(["symbolic", "fixed"], "symbolic"))
def test_the_recording_is_right_too(kind: type[nn.Module], rung: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rungs, "is_plain", lambda model: False)
    report = assert_right(build(kind), dynamic="auto" if rung == "symbolic" else "none")
    assert report.rung == rung


def test_rows_that_a_mask_picks_are_recorded_where_sizes_may_be_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rungs, "is_plain", lambda model: False)
    assert assert_right(build(PicksRows)).rung == "symbolic"
    with pytest.raises(CaptureError, match=r"The model's line: return self\.first\(x\[x\.sum\(1\) > -100\]\)"):
        assert_right(build(PicksRows), dynamic="none")


def test_a_layer_whose_parameters_forward_makes_is_written_as_functions() -> None:
    gm = capture(build(MakesLinear), (vector(4),))
    assert [str(node.target) for node in gm.graph.find_nodes(op="call_module")] == ["first"]
    assert not any(name.startswith("_unregistered") for name, _ in gm.named_modules())
