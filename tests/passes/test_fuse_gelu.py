"""A GELU written out in each way that models do becomes one call; what only looks like one stays."""

import math
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.fx import Node
from transformers.activations import ACT2FN

from fxopt import FuseGelu, PackLinears, compose
from fxopt.testing import check_pass
from tests.examples import Example
from tests.fuzz.builder import Builder, Choices
from tests.passes.asserts import Net, assert_close_and_reversible, assert_left_alone, captured

X = torch.randn(4, 6, generator=torch.Generator().manual_seed(0)) * 3
ROOT = math.sqrt(2 / math.pi)


class NewGelu(nn.Module):
    """The block of GPT-2 around its activation."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.act, self.down = nn.Linear(6, 12), ACT2FN["gelu_new"], nn.Linear(12, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.down(self.act(self.up(x)))
        return y


def written_out(build: Builder, x: Node, choose: Choices) -> Node:
    """An instruction of the fuzzer: a GELU by tanh, or what looks like one."""
    cubic, power = choose(0.044715, 0.044715, 0.5), choose(3.0, 3, 2.0)
    cube = build.function(operator.mul, build.function(torch.pow, x, power), cubic)
    inner = build.function(torch.tanh, build.function(operator.mul, build.function(operator.add, x, cube), ROOT))
    half = build.function(operator.mul, x, choose(0.5, 0.5, 0.25))
    whole = build.function(operator.mul, half, build.function(operator.add, inner, 1.0))
    if choose("plain", "plain", "read") == "read":
        build.keep(inner)
    return whole


PATTERNS = (
    [("written_out", 0, 0), ("pointwise", 0, 1)],
    [("linear", 0, 0), ("written_out", 0, 0), ("pointwise", 0, 1)],
    [("written_out", 0, 0), ("write", 1, 0)],
)
INSTRUCTIONS = (written_out,)
EXAMPLES = (Example("gelu", NewGelu, ((4, 6),)),)


@pytest.mark.parametrize("name", ["gelu_new", "gelu_fast", "gelu_accurate"])
def test_every_way_of_transformers_becomes_one_call(name: str) -> None:
    gm = captured(lambda m, x: m.act(x), X, act=ACT2FN[name])
    assert_close_and_reversible(FuseGelu(), gm, X)
    calls = [node for node in FuseGelu()(gm).graph.nodes if node.op.startswith("call")]
    assert [node.target for node in calls] == [F.gelu]


def test_the_laws_hold() -> None:
    report = check_pass(FuseGelu(), [(NewGelu().eval(), (X,)), (Net(lambda m, x: m.a(x), a=ACT2FN["gelu_fast"]), (X,))])
    assert report.sites == 2


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("gelu_new", torch.float32),
        ("gelu_new", torch.float64),
        ("gelu_new", torch.bfloat16),
        ("gelu_fast", torch.float32),
    ],
)
def test_extreme_numbers_come_out_as_before(name: str, dtype: torch.dtype) -> None:
    values = [0.0, -0.0, 1e-30, 40.0, -40.0, 1e20, -1e20, math.inf, -math.inf, math.nan]
    for value in values:
        x = torch.full((4, 6), value, dtype=dtype)
        gm = captured(lambda m, x: m.act(x), x, act=ACT2FN[name])
        before = gm(x)
        torch.testing.assert_close(FuseGelu()(gm)(x), before, equal_nan=True, msg=str(value))


def test_a_packed_linear_takes_the_activation_along() -> None:
    gm = captured(lambda m, x: m.block(x), X, block=NewGelu())
    compose(FuseGelu(), PackLinears())(gm)
    assert str(gm.get_submodule("block.up")).endswith("activation=gelu(tanh))")
    assert [node.op for node in gm.graph.nodes] == ["placeholder", "call_module", "call_module", "output"]


@pytest.mark.parametrize(
    "forward",
    [
        lambda m, x: 0.5 * x * (1 + torch.tanh(ROOT * (x + 0.0447 * torch.pow(x, 3.0)))),
        lambda m, x: 0.5 * x * (1 + torch.tanh(ROOT * (x + 0.044715 * torch.pow(x, 2.0)))),
        lambda m, x: 0.25 * x * (1 + torch.tanh(ROOT * (x + 0.044715 * torch.pow(x, 3.0)))),
        lambda m, x: 0.5 * x * (1 + torch.tanh(ROOT * (x + 0.044715 * torch.pow(x + 1, 3.0)))),
        lambda m, x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
    ],
    ids=["another cubic", "a square", "a quarter", "another input", "by erf"],
)
def test_what_only_looks_like_one_stays(forward: Callable[[Any, torch.Tensor], torch.Tensor]) -> None:
    gm = captured(forward, X)
    assert not FuseGelu().scan(gm).matches


@pytest.mark.parametrize("dtype", [torch.int64, torch.complex64])
def test_numbers_that_torch_has_no_gelu_of_stay(dtype: torch.dtype) -> None:
    x = torch.ones(4, 6, dtype=dtype)
    gm = captured(lambda m, x: m.act(x), x, act=ACT2FN["gelu_new"])
    assert_left_alone(FuseGelu(), gm, f"is {dtype}, for which torch has no gelu")


def test_a_constant_with_too_few_digits_for_the_dtype_stays() -> None:
    x = X.double()
    gm = captured(lambda m, x: m.act(x), x, act=ACT2FN["gelu_fast"])
    assert_left_alone(FuseGelu(), gm, "0.7978845608 has fewer digits than torch.float64")


def test_an_inner_value_with_another_reader_is_a_near_miss() -> None:
    def forward(m: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        inner = torch.tanh(ROOT * (x + 0.044715 * torch.pow(x, 3.0)))
        return 0.5 * x * (1 + inner), inner

    scan = FuseGelu().scan(captured(forward, X))
    assert not scan.matches
    assert any("tanh" in miss.reason for miss in scan.misses)
