from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fxopt import FuseBiasInLinear
from tests.passes.asserts import assert_close_and_reversible, assert_left_alone, captured, traced

PATTERNS = (
    [("linear", 0, 0)],
    [("linear", 0, 0), ("linear", 1, 0)],
    [("linear", 0, 0), ("write", 1, 0), ("linear", 2, 0)],
    [("attention", 0, 0)],
)

X = torch.linspace(-3, 5, 24).reshape(2, 3, 4)


@given(
    out=st.integers(1, 9),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.float16, torch.bfloat16]),
    shape=st.sampled_from([(4,), (0, 4), (5, 4), (2, 3, 4), (1, 1, 1, 4)]),
)
def test_the_bias_becomes_a_column(out: int, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    x = torch.linspace(-1, 1, max(1, torch.Size(shape).numel())).to(dtype)[: torch.Size(shape).numel()].reshape(shape)
    gm = traced(lambda m, x: m.a(x), x, a=nn.Linear(4, out, dtype=dtype))
    if x.numel():
        assert_close_and_reversible(FuseBiasInLinear(), gm, x)
    FuseBiasInLinear()(gm)
    fused = gm.get_submodule("a")
    assert fused.bias is None
    assert fused.weight.shape == (out, 5)
    assert gm(x).shape == (*shape[:-1], out)


def test_linears_that_read_one_input_share_its_copy() -> None:
    gm = captured(lambda m, x: m.a(x) + m.b(x), X, a=nn.Linear(4, 5), b=nn.Linear(4, 5))
    FuseBiasInLinear()(gm)
    assert [node.name for node in gm.graph.nodes if "pad" in node.name] == ["pad"]
    FuseBiasInLinear()(gm, reverse=True)
    assert_close_and_reversible(FuseBiasInLinear(), gm, X, sites=2)


def test_an_input_changed_in_place_is_copied_again() -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        x = x * 1
        first = m.a(x)
        x.add_(1)
        return first + m.b(x)

    gm = captured(forward, X, a=nn.Linear(4, 5), b=nn.Linear(4, 5))
    assert_close_and_reversible(FuseBiasInLinear(), gm, X, sites=2)


def test_a_linear_without_bias_is_not_a_near_miss() -> None:
    gm = captured(lambda m, x: m.a(x), X, a=nn.Linear(4, 5, bias=False))
    scan = FuseBiasInLinear().scan(gm)
    assert (scan.matches, scan.misses) == ((), ())


def test_a_frozen_bias_beside_a_weight_that_trains_is_left_alone() -> None:
    layer = nn.Linear(4, 5)
    layer.bias.requires_grad_(False)
    gm = captured(lambda m, x: m.a(x), X, a=layer)
    assert_left_alone(FuseBiasInLinear(), gm, "frozen bias and a weight that trains")


def test_frozen_weights_stay_frozen() -> None:
    gm = captured(lambda m, x: m.a(x), X, a=nn.Linear(4, 5).requires_grad_(False))
    FuseBiasInLinear()(gm)
    assert not gm.get_submodule("a").weight.requires_grad


def test_a_shared_linear_is_left_alone() -> None:
    gm = captured(lambda m, x: m.a(m.a(x)), X, a=nn.Linear(4, 4))
    assert_left_alone(FuseBiasInLinear(), gm, "a is called 2 times")


def test_an_input_of_another_dtype_is_left_alone() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.empty(2, 4, dtype=torch.float64)
    graph.output(graph.call_module("a", (x,)))
    gm = torch.fx.GraphModule({"a": nn.Linear(4, 5)}, graph)
    assert_left_alone(FuseBiasInLinear(), gm, "x is torch.float64 but a is torch.float32")


@pytest.mark.parametrize("batch", [1, 2, 7])
def test_the_copy_follows_the_batch_size(batch: int) -> None:
    layer = nn.Linear(4, 5)
    gm = captured(lambda m, x: m.a(x), torch.rand(3, 4), a=layer)
    x = torch.rand(batch, 4)
    torch.testing.assert_close(FuseBiasInLinear()(gm)(x), layer(x))
