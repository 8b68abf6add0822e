"""Forwards that fix a size, are captured with a note, or are refused with the reason and the line."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import rnn

from fxopt.tracing import capture, rungs
from tests.tracing.forwards import LoopsInGenerator, assert_right, refusal
from tests.tracing.zoo import Perceptron, build, vector


class SizeInNumpy(Perceptron):
    def forward(self, x):
        return self.first(x) / np.sqrt(x.shape[-1])


def test_a_size_that_numpy_cannot_take_is_fixed_and_the_batch_stays_free() -> None:
    report = assert_right(build(SizeInNumpy), 6, 1)
    assert report.rung == "symbolic"
    assert list(report.free) == ["batch"]
    assert [tried.rung for tried in report.tried] == ["plain torch.fx", "symbolic sizes"]


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
