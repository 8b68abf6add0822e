from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx import Node
from transformers.pytorch_utils import Conv1D

import fxopt
from fxopt import ChangeAddmmToLinear, PackLinears, compose
from fxopt.testing import check_pass
from tests.examples import Example, outputs
from tests.fuzz.builder import Builder, Choices, RefusedError
from tests.passes.asserts import assert_left_alone, captured

X = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))


class Attention(nn.Module):
    """One projection of GPT-2 to queries, keys and values, and one back."""

    def __init__(self) -> None:
        super().__init__()
        self.c_attn, self.c_proj = Conv1D(24, 8), Conv1D(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.c_attn(x).split(8, dim=2)
        y: torch.Tensor = self.c_proj(torch.softmax(q @ k.transpose(1, 2), -1) @ v)
        return y


class Addmm(nn.Module):
    def __init__(self, weight: torch.Tensor, bias: torch.Tensor, call: Callable[..., torch.Tensor] = torch.addmm):
        super().__init__()
        self.weight, self.bias, self.call = nn.Parameter(weight), nn.Parameter(bias), call

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.call(self.bias, x, self.weight)


def addmm(build: Builder, x: Node, choose: Choices) -> Node:
    """An instruction of the fuzzer."""
    x = build.ranked(x, 2)
    if not build.shape(x)[1]:
        raise RefusedError
    width, out = build.shape(x)[1], choose(6, 1)
    how = choose("plain", "plain", "kwargs", "wide bias", "frozen", "shared")
    holder = nn.Module()
    holder.weight = nn.Parameter(torch.randn(width, out, dtype=build.dtype), requires_grad=how != "frozen")
    holder.bias = nn.Parameter(torch.randn((1, out) if how == "wide bias" else (out,), dtype=build.dtype))
    path = build.add(holder, choose("", "block"))
    bias, weight = (build.emit("get_attr", f"{path}.{name}") for name in ("bias", "weight"))
    made = build.function(torch.addmm, bias, x, weight, **({"beta": 2, "alpha": 0.5} if how == "kwargs" else {}))
    return build.function(torch.addmm, bias, x, weight) if how == "shared" else made


PATTERNS = ([("addmm", 0, 0)], [("addmm", 0, 0), ("pointwise", 0, 1)], [("write", 0, 0), ("addmm", 1, 0)])
INSTRUCTIONS = (addmm,)


EXAMPLES = (Example("conv1d", Attention, ((2, 3, 8),)),)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_conv1d_of_transformers_becomes_a_linear_layer_with_the_same_bits(dtype: torch.dtype) -> None:
    x = torch.randn(2, 5, 8, dtype=dtype)
    gm = fxopt.capture(Attention().eval().to(dtype), (x,))
    before, old = fxopt.fingerprint(gm), outputs(gm, (x,))
    ChangeAddmmToLinear()(gm)
    assert [type(module) for module in gm.modules() if not list(module.children())] == [nn.Linear, nn.Linear]
    assert all(torch.equal(a, b) for a, b in zip(old, outputs(gm, (x,)), strict=True))
    ChangeAddmmToLinear()(gm, reverse=True)
    assert fxopt.fingerprint(gm) == before


def test_the_laws_hold() -> None:
    report = check_pass(ChangeAddmmToLinear(), [(Attention().eval(), (torch.randn(2, 3, 8),))])
    assert report.sites == 2


def test_no_number_is_copied() -> None:
    model = Addmm(torch.randn(8, 4), torch.randn(4))
    gm = fxopt.capture(model, (X,))
    ChangeAddmmToLinear()(gm)
    linear = gm.get_submodule("linear")
    assert linear.weight.data_ptr() == model.weight.data_ptr()
    assert linear.bias is model.bias
    assert "view" in ChangeAddmmToLinear().explain(ChangeAddmmToLinear().scan(fxopt.capture(model, (X,))).matches[0])


def test_passes_for_linear_layers_match_behind_it() -> None:
    x = torch.randn(2, 3, 8)
    gm = fxopt.capture(Attention().eval(), (x,))
    assert not PackLinears().scan(gm).matches
    both = compose(ChangeAddmmToLinear(), PackLinears())
    before = fxopt.fingerprint(gm)
    assert len(PackLinears().scan(ChangeAddmmToLinear()(gm)).matches) == 2
    ChangeAddmmToLinear()(gm, reverse=True)
    both(gm)
    both(gm, reverse=True)
    assert fxopt.fingerprint(gm) == before


def test_the_operator_of_an_export_is_one_too() -> None:
    program = torch.export.export(Addmm(torch.randn(8, 4), torch.randn(4)).eval(), (X,))
    gm = program.module()
    assert isinstance(gm, torch.fx.GraphModule)
    old = outputs(gm, (X,))
    assert len(ChangeAddmmToLinear().scan(gm).matches) == 1
    ChangeAddmmToLinear()(gm)
    assert all(torch.equal(a, b) for a, b in zip(old, outputs(gm, (X,)), strict=True))


class Buffers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(4))
        self.register_buffer("weight", torch.ones(8, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.addmm(self.bias, x, self.weight)


def shared() -> nn.Module:
    linear = nn.Linear(4, 8, bias=False)
    return Addmm(linear.weight, torch.zeros(4), lambda b, x, w: torch.addmm(b, x, w) + torch.addmm(b, x, w * 2))


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (Addmm(torch.ones(8, 4), torch.zeros(1, 4)), "adds a tensor of shape (1, 4)"),
        (Addmm(torch.ones(8, 4), torch.zeros(1)), "adds a tensor of shape (1,)"),
        (Addmm(torch.ones(8, 4), torch.zeros(4), lambda b, x, w: torch.addmm(b, x, w, beta=2)), "other than one input"),
        (Addmm(torch.ones(8, 4), torch.zeros(3, 4), lambda b, x, w: torch.addmm(b * 2, x, w)), "computed by"),
        (Buffers(), "weight is a buffer"),
        (shared(), "is read by"),
    ],
    ids=str,
)
def test_what_is_no_linear_layer_is_left_alone(model: Any, reason: str) -> None:
    assert_left_alone(ChangeAddmmToLinear(), fxopt.capture(model.eval(), (X,)), reason)


def test_a_product_with_a_computed_matrix_is_no_near_miss() -> None:
    gm = captured(lambda m, x: torch.addmm(m.a.bias, x, m.a.weight.t() * 2), X, a=nn.Linear(8, 4))
    scan = ChangeAddmmToLinear().scan(gm)
    assert not scan.matches
    assert not scan.misses
