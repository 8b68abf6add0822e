"""The scale behind a linear layer goes into its weights; one that is not provably the same stays."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fxopt
from fxopt import FoldScaleInLinear
from fxopt.testing import check_pass
from tests.examples import Example
from tests.passes.asserts import (
    Net,
    assert_as_exact_as_before,
    assert_close_and_reversible,
    assert_left_alone,
    captured,
)

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


def linear(bias: bool = True) -> nn.Linear:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Linear(4, 6, bias=bias)


class ScaledQuery(nn.Module):
    """Attention as Bart and OPT write it: the query is scaled behind its linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k = linear(), linear()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax((self.q(x) * 6**-0.5) @ self.k(x).transpose(-2, -1), -1)


PATTERNS = (
    [("linear", 0, 0), ("scale", 0, 0), ("pointwise", 0, 0)],
    [("linear", 0, 0), ("scale", 0, 0), ("write", 0, 0)],
    [("linear", 0, 0), ("scale", 0, 0), ("ask", 1, 0)],
)
EXAMPLES = (Example("scaled query", ScaledQuery, ((3, 4),)),)
SPELLINGS: list[Callable[[Any, torch.Tensor], torch.Tensor]] = [
    lambda m, x: m.a(x) * 0.3,
    lambda m, x: 3 * m.a(x),
    lambda m, x: torch.mul(m.a(x), -0.25),
    lambda m, x: m.a(x).mul(0.3),
    lambda m, x: m.a(x) / 3,
    lambda m, x: torch.div(m.a(x), -7.5),
    lambda m, x: torch.ops.aten.mul.Tensor(m.a(x), 0.3),
]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("forward", SPELLINGS)
def test_every_way_to_scale_is_folded(forward: Callable[..., torch.Tensor], bias: bool) -> None:
    gm = captured(forward, X, a=linear(bias))
    assert_close_and_reversible(FoldScaleInLinear(), gm, X)
    assert [node.name for node in FoldScaleInLinear()(gm).graph.nodes] == ["x", "a", "output"]
    assert list(gm.state_dict()) == ["a.weight", "a.bias"] if bias else ["a.weight"]


@pytest.mark.parametrize("form", ["function", "exported"])
def test_a_linear_that_is_called_as_a_function_is_scaled_too(form: str) -> None:
    class Functions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w, self.b = nn.Parameter(torch.rand(6, 4)), nn.Parameter(torch.rand(6))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(F.linear(x, self.w, self.b) * 0.3)

    model = Functions()
    gm = fxopt.capture(model, (X,)) if form == "function" else torch.export.export(model, (X,)).module()
    assert_close_and_reversible(FoldScaleInLinear(), gm, X)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("constant", [0.125, 1 / 3, -7])
def test_it_is_as_exact_in_every_dtype(dtype: torch.dtype, constant: float) -> None:
    assert_as_exact_as_before(FoldScaleInLinear(), lambda m, x: m.a(x) * constant, X.to(dtype), a=linear())


@pytest.mark.parametrize("forward", [lambda m, x: m.a(x) * -0.125, lambda m, x: m.a(x) / 8])
def test_a_power_of_two_gives_the_same_bits(forward: Callable[..., torch.Tensor]) -> None:
    gm = captured(forward, X, a=linear())
    before = gm(X)
    [match] = FoldScaleInLinear().scan(gm).matches
    assert "is a power of two" in FoldScaleInLinear().explain(match)
    assert torch.equal(FoldScaleInLinear()(gm)(X), before)


def test_infinities_and_nan_come_out_as_before() -> None:
    gm = captured(lambda m, x: m.a(x) * -0.5, X, a=linear())
    folded = FoldScaleInLinear()(fxopt.capture(Net(lambda m, x: m.a(x) * -0.5, a=linear()).eval(), (X,)))
    for value in (math.inf, -math.inf, math.nan, -0.0):
        x = X.clone()
        x[0, 1] = value
        assert torch.equal(folded(x).isnan(), gm(x).isnan())
        assert torch.equal(folded(x).nan_to_num(), gm(x).nan_to_num())


def test_the_laws_hold() -> None:
    assert check_pass(FoldScaleInLinear(), [(ScaledQuery().eval(), (X,))]).sites == 1


def test_the_weights_train_as_before_where_they_did() -> None:
    frozen = linear()
    frozen.weight.requires_grad_(False)
    gm = FoldScaleInLinear()(captured(lambda m, x: m.a(x) * 2, X, a=frozen))
    assert [one.requires_grad for one in gm.parameters()] == [False, True]


@pytest.mark.parametrize(
    ("constant", "reason"),
    [
        (1e-37, "would hold numbers that torch.float32 has not, scaled by 1e-37"),
        (1e39, "would hold numbers that torch.float32 has not"),
        (0.0, "would hold numbers that torch.float32 has not"),
    ],
)
def test_weights_that_would_leave_the_range_stay(constant: float, reason: str) -> None:
    assert_left_alone(FoldScaleInLinear(), captured(lambda m, x: m.a(x) * constant, X, a=linear()), reason)


def test_a_bias_that_would_leave_the_range_and_weights_that_are_not_finite_stay() -> None:
    layer = linear()
    gm = captured(lambda m, x: m.a(x) * 1e4, X, a=layer)
    with torch.no_grad():
        layer.bias[0] = 1e36
    assert_left_alone(FoldScaleInLinear(), gm, "the bias of a would hold numbers that torch.float32 has not")
    with torch.no_grad():
        layer.bias[0], layer.weight[0, 0] = 0, math.nan
    assert_left_alone(FoldScaleInLinear(), gm, "the weight of a would hold numbers")


def test_a_linear_that_is_read_elsewhere_or_shared_or_asked_for_stays() -> None:
    read = captured(lambda m, x: (y := m.a(x)) * 2 + y, X, a=linear())
    assert_left_alone(FoldScaleInLinear(), read, "a is also read by")
    shared = captured(lambda m, x: (m.a(x) * 2, m.a(x + 1)), X, a=linear())
    assert_left_alone(FoldScaleInLinear(), shared, "a is called 2 times")
    tied = captured(lambda m, x: (m.a(x) * 2) @ m.a.weight, X, a=linear())
    assert_left_alone(FoldScaleInLinear(), tied, "reads a.weight")


@pytest.mark.parametrize(
    "forward",
    [
        lambda m, x: m.a(x) * x.sum(),
        lambda m, x: m.a(x) + 2,
        lambda m, x: 2 / m.a(x),
        lambda m, x: torch.div(m.a(x), 2, rounding_mode="floor"),
        lambda m, x: m.a(x) * math.inf,
        lambda m, x: m.a(x) * True,
    ],
)
def test_what_is_no_scale_is_no_site(forward: Callable[..., torch.Tensor]) -> None:
    scan = FoldScaleInLinear().scan(captured(forward, X, a=linear()))
    assert (scan.matches, scan.misses) == ((), ())


def test_a_write_in_place_stays_apart() -> None:
    gm = captured(lambda m, x: m.a(x).mul_(2), X, a=linear())
    assert not FoldScaleInLinear().scan(gm).matches
