"""What people write in a forward: each is captured right, or refused with the reason and the line."""

from __future__ import annotations

import copy
import random
import warnings
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrize, rnn

from fxopt.tracing import CaptureError, CaptureReport, capture, rungs
from fxopt.tracing.structure import tensors_of
from tests.quick import quick, third
from tests.tracing.zoo import Perceptron, build, vector


@torch.no_grad()
def answer(call: nn.Module, *args: Any) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [part.to_dense() if part.is_sparse else part for part in tensors_of(copy.deepcopy(call)(*args))]


def assert_right(model: nn.Module, *sizes: int, **options: Any) -> CaptureReport:
    """The graph answers as the model does at the example, which has a batch of 4, and at these batches."""
    gm = capture(model, (vector(4),), **options)
    for size in (4, *sizes):
        for expected, replayed in zip(answer(model, vector(size)), answer(gm, vector(size)), strict=True):
            torch.testing.assert_close(replayed, expected)
    return gm.meta["fxopt"]


def refusal(model: nn.Module, **options: Any) -> str:
    with pytest.raises(CaptureError) as caught:
        capture(model, (vector(4),), **options)
    return str(caught.value)


# ---------------------------------------------------------------- right, at every batch
class LoopsInGenerator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        for _ in range(3):
            x = self.layer(x)
            yield x


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


def test_a_layer_whose_parameters_forward_makes_is_written_as_functions() -> None:
    gm = capture(build(MakesLinear), (vector(4),))
    assert [str(node.target) for node in gm.graph.find_nodes(op="call_module")] == ["first"]
    assert not any(name.startswith("_unregistered") for name, _ in gm.named_modules())


# ---------------------------------------------------------------- sizes
class SizeInNumpy(Perceptron):
    def forward(self, x):
        return self.first(x) / np.sqrt(x.shape[-1])


def test_a_size_that_numpy_cannot_take_is_fixed_and_the_batch_stays_free() -> None:
    report = assert_right(build(SizeInNumpy), 6, 1)
    assert report.rung == "symbolic"
    assert list(report.free) == ["batch"]
    assert [tried.rung for tried in report.tried] == ["plain torch.fx", "symbolic sizes"]


# ---------------------------------------------------------------- told
class WithoutGrad(Perceptron):
    def forward(self, x):
        with torch.no_grad():
            x = self.first(x)
        return self.second(x)


@pytest.mark.parametrize("plain", [True, False])
def test_grad_mode_that_the_graph_does_not_set_is_told(plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rungs, "is_plain", lambda model: plain)
    (note,) = assert_right(build(WithoutGrad), 6).notes
    assert "grad mode is not part of the graph" in note
    assert f"{__file__}:" in note


class WithoutAutocast(Perceptron):
    def forward(self, x):
        with torch.autocast("cpu", enabled=False):
            return self.first(x)


def test_autocast_that_the_graph_does_not_disable_is_told() -> None:
    (note,) = assert_right(build(WithoutAutocast), 6).notes
    assert "disables autocast at" in note


# ---------------------------------------------------------------- refused
class ReturnsGenerator(Perceptron):
    def forward(self, x):
        return (self.first(row) for row in (x, x + 1))


@pytest.mark.parametrize("kind", [ReturnsGenerator, LoopsInGenerator])
def test_a_generator_as_output_is_refused(kind: type[nn.Module]) -> None:
    text = refusal(build(kind))
    assert "forward returns a generator, which can be read once only" in text
    assert text.endswith("What to try: make it a list.")


class PrintsNumber(Perceptron):
    def forward(self, x):
        y = self.first(x)
        assert f"{y.sum():.3f}"
        return y


class GoesThroughNumpy(Perceptron):
    def forward(self, x):
        return self.first(torch.from_numpy(np.sin(x.detach().numpy())))


@pytest.mark.parametrize("kind", [PrintsNumber, GoesThroughNumpy])
def test_the_value_of_a_tensor_in_a_text_or_in_numpy_is_named_with_its_line(kind: type[nn.Module]) -> None:
    text = refusal(build(kind))
    assert "depends on the data in a tensor" in text
    assert f"{__file__}:" in text
    assert capture(build(kind), (vector(4),), allow_baked=True).meta["fxopt"].rung == "real"


class DrawsFromPython(Perceptron):
    def forward(self, x):
        return self.first(x) * random.random()


class DrawsFromNumpy(Perceptron):
    def forward(self, x):
        return self.first(x) * float(np.random.rand())


@pytest.mark.parametrize(("kind", "name"), [(DrawsFromPython, "random"), (DrawsFromNumpy, "numpy.random")])
def test_random_numbers_outside_of_torch_are_no_constants_in_silence(kind: type[nn.Module], name: str) -> None:
    random.seed(0)  # where a comparison would start as well
    np.random.seed(0)
    assert f"what forward draws from {name} is a constant of the graph" in refusal(build(kind))
    report = capture(build(kind), (vector(4),), allow_baked=True).meta["fxopt"]
    assert report.rung == "real"
    assert [str(baked) for baked in report.baked] == [f"{name} gave the numbers of this run"]


class Branches(Perceptron):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (x,))


class HoldsBranches(Perceptron):
    def __init__(self) -> None:
        super().__init__()
        self.branches = build(Branches)

    def forward(self, x):
        return self.first(self.branches(x))


def test_an_operator_over_functions_is_refused_and_its_module_can_be_a_leaf() -> None:
    model = build(HoldsBranches)
    text = refusal(model)
    assert "cond at" in text
    assert "takes functions, which no node can hold" in text
    assert "leaf='branches'" in text
    assert_right(model, 6, leaf="branches")


def test_such_an_operator_of_the_model_itself_is_refused_with_a_remedy_and_works_as_before() -> None:
    text = refusal(build(Branches))
    assert "The model's line: return torch.cond(" in text
    assert "What to try: put that call in a module of its own, and keep it whole with leaf=" in text
    torch.testing.assert_close(build(Branches)(vector(4)), vector(4).sin() if vector(4).sum() > 0 else vector(4).cos())


class NeedsGrad(Perceptron):
    def forward(self, x):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            return torch.autograd.grad(self.first(x).pow(2).sum(), x)[0]


def test_where_grad_mode_matters_the_reason_says_so() -> None:
    assert "grad mode is not part of the graph; the model first sets it at" in refusal(build(NeedsGrad))


class Lazy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LazyLinear(4)

    def forward(self, x):
        return self.layer(x)


def test_a_lazy_layer_is_refused_and_stays_lazy() -> None:
    model = Lazy()
    assert "layer.weight of Lazy has no shape yet" in refusal(model)
    assert type(model.layer) is nn.LazyLinear
    assert model(vector(4)).shape == (4, 4)
    assert_right(model, 6)


def test_a_capture_inside_an_autocast_region_is_refused() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert "autocast region around the capture" in refusal(build(Perceptron))
    assert not torch.is_autocast_enabled("cpu")


class PacksSequences(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(8, 4, batch_first=True)

    def forward(self, x):
        x = x.unsqueeze(1).expand(-1, 5, -1)
        packed = rnn.pack_padded_sequence(x, torch.full((x.shape[0],), 5), batch_first=True)
        return rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True)[0]


def test_packed_sequences_are_captured_with_the_lengths_of_the_example() -> None:
    report = assert_right(build(PacksSequences), allow_baked=True)
    assert report.rung == "real"
