"""A root-mean-square norm written out becomes one call; a norm that computes something else stays."""

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.fx import Node
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.t5.modeling_t5 import T5LayerNorm

from fxopt import FuseRMSNorm
from fxopt.testing import check_pass
from tests.examples import Example
from tests.fuzz.builder import Builder, Choices
from tests.passes.asserts import (
    Net,
    assert_as_exact_as_before,
    assert_close_and_reversible,
    assert_left_alone,
    captured,
)

X = torch.randn(4, 6, generator=torch.Generator().manual_seed(0)) * 3


def norm(kind: Callable[[int], nn.Module] = LlamaRMSNorm, width: int = 6) -> nn.Module:
    made = kind(width)
    nn.init.uniform_(made.weight, 0.5, 1.5)  # type: ignore[arg-type]
    return made


class Plain(nn.Module):
    """A norm as it is written without casts."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Feed(nn.Module):
    """The feed-forward half of a block of Llama."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = norm(), nn.Linear(6, 12, bias=False), nn.Linear(12, 6, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = x + self.down(F.silu(self.up(self.norm(x))))
        return y


def rms(build: Builder, x: Node, choose: Choices) -> Node:
    """An instruction of the fuzzer: a norm as Llama writes it, or one that looks like it."""
    name = f"scale{build.count}"
    build.count += 1
    build.root.register_parameter(name, nn.Parameter(torch.rand(build.shape(x)[-1]).to(build.dtype) + 0.5))
    y = build.method("to", x, build.dtype) if choose(True, False) else x
    squares = build.method("pow", y, choose(2, 2, 3))
    mean = build.method("mean", squares, choose(-1, -1, 0), keepdim=True)
    inverse = build.function(torch.rsqrt, build.function(operator.add, mean, 1e-6))
    scaled = build.function(operator.mul, y, inverse)
    scaled = build.method("to", scaled, build.dtype) if y is not x else scaled
    if choose("plain", "plain", "read") == "read":
        build.keep(scaled)
    return build.function(operator.mul, build.emit("get_attr", name), scaled)


PATTERNS = (
    [("rms", 0, 0), ("pointwise", 0, 1)],
    [("linear", 0, 0), ("rms", 0, 0), ("linear", 0, 0)],
    [("rms", 0, 1), ("write", 1, 0)],
)
INSTRUCTIONS = (rms,)
EXAMPLES = (Example("rms norm", Feed, ((4, 6),)),)


@pytest.mark.parametrize("kind", [LlamaRMSNorm, T5LayerNorm, Plain])
def test_every_way_of_writing_it_becomes_one_call(kind: Callable[[int], nn.Module]) -> None:
    gm = captured(lambda m, x: m.norm(x), X, norm=norm(kind))
    assert_close_and_reversible(FuseRMSNorm(), gm, X)
    calls = [node for node in FuseRMSNorm()(gm).graph.nodes if node.op.startswith("call")]
    assert [node.target for node in calls] == [F.rms_norm]


def test_the_laws_hold() -> None:
    report = check_pass(FuseRMSNorm(), [(Feed().eval(), (X,)), (Net(lambda m, x: m.norm(x), norm=norm(Plain)), (X,))])
    assert report.sites == 2


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_it_is_as_exact_in_every_dtype(dtype: torch.dtype) -> None:
    assert_as_exact_as_before(FuseRMSNorm(), lambda m, x: m.norm(x), X.to(dtype), norm=norm())


def test_extreme_numbers_come_out_as_before() -> None:
    for value in (0.0, -0.0, 1e-30, 1e20, -1e20, torch.inf, torch.nan):
        x = torch.full((4, 6), value)
        gm = captured(lambda m, x: m.norm(x), x, norm=norm())
        before = gm(x)
        torch.testing.assert_close(FuseRMSNorm()(gm)(x), before, equal_nan=True, msg=str(value))


def test_a_norm_of_other_powers_or_dimensions_is_none() -> None:
    for forward in (
        lambda m, x: m.w.weight[0] * (x * torch.rsqrt(x.pow(3).mean(-1, keepdim=True) + 1e-6)),
        lambda m, x: m.w.weight[0] * (x * torch.rsqrt(x.pow(2).mean(0, keepdim=True) + 1e-6)),
    ):
        assert not FuseRMSNorm().scan(captured(forward, X, w=nn.Linear(6, 1))).matches


@pytest.mark.parametrize(
    ("forward", "x", "reason"),
    [
        (lambda m, x: m.norm(x), X.double(), "the squares are torch.float32, and rms_norm computes"),
        (lambda m, x: m.norm(x), X.bfloat16(), "x is torch.bfloat16, norm_weight torch.float32"),
        (lambda m, x: m.plain(x), X.half(), "the squares are torch.float16, in which they may overflow"),
        (lambda m, x: m.one(m.linear(x)), X, "one_weight has shape (1,), and rms_norm takes a number for each"),
    ],
    ids=["float64", "two dtypes", "float16", "one weight"],
)
def test_a_norm_in_other_dtypes_or_with_another_weight_stays(
    forward: Callable[[Any, torch.Tensor], Any], x: torch.Tensor, reason: str
) -> None:
    layers = {"norm": norm(), "plain": norm(Plain), "one": norm(Plain, 1), "linear": nn.Linear(6, 6)}
    if x.dtype in (torch.float64, torch.float16):
        layers = {name: layer.to(x.dtype) for name, layer in layers.items()}
    assert_left_alone(FuseRMSNorm(), captured(forward, x, **layers), reason)


def test_a_norm_whose_inner_value_is_read_stays() -> None:
    def forward(m: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        inverse = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return m.norm.weight * (x * inverse), inverse

    assert_left_alone(FuseRMSNorm(), captured(forward, X, norm=norm()), "rsqrt is also read by output")


def test_under_autocast_which_chooses_the_dtype_of_each_call_it_stays() -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            y: torch.Tensor = m.norm(m.linear(x).float())
        return y

    gm = captured(forward, X, norm=norm(), linear=nn.Linear(6, 6))
    assert_left_alone(FuseRMSNorm(), gm, "runs under autocast (cpu, torch.bfloat16)")
