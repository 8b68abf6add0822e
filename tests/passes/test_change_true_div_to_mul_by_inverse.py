import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.fx import GraphModule
from torch.fx.passes.shape_prop import ShapeProp

import fxopt
from fxopt import ChangeTrueDivToMulByInverse, Exactness
from fxopt.testing import check_pass
from tests.passes.asserts import Net, assert_close_and_reversible, assert_left_alone, captured

PATTERNS = (
    [("divide", 0, 0)],
    [("integers", 0, 0)],
    [("jump", 0, 0)],
    [("jump", 0, 0), ("divide", 0, 0)],
    [("divide", 0, 0), ("divide", 0, 0)],
    [("attention", 0, 0)],
)

X = torch.linspace(-3, 5, 12).reshape(3, 4)


def divide(divisor: Any) -> GraphModule:
    class Divide(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x / divisor

    return torch.fx.symbolic_trace(Divide())


@pytest.mark.parametrize(
    "forward",
    [
        lambda m, x: x / 3,
        lambda m, x: torch.div(x, 3),
        lambda m, x: torch.true_divide(x, 3.0),
        lambda m, x: x.div(3),
        lambda m, x: x.true_divide(3),
        lambda m, x: x / math.sqrt(48),
    ],
)
def test_every_spelling_of_a_division_is_rewritten_and_comes_back(forward: Callable[..., Any]) -> None:
    assert_close_and_reversible(ChangeTrueDivToMulByInverse(), captured(forward, X), X)


def test_a_division_in_place_stays_in_place() -> None:
    def forward(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        y = x * 1.0
        alias = y.view(-1)
        y /= 4
        return alias

    gm = captured(forward, X)
    ChangeTrueDivToMulByInverse()(gm)
    assert any(node.target in (operator.imul, "mul_") for node in gm.graph.nodes)
    assert torch.equal(gm(X), X.view(-1) / 4)


@given(divisor=st.integers(1, 1000) | st.floats(1e-6, 1e6))
def test_the_very_constant_comes_back(divisor: float) -> None:
    gm = divide(divisor)
    (before,) = (node.args[1] for node in gm.graph.nodes if node.op == "call_function")
    ChangeTrueDivToMulByInverse()(gm)
    ChangeTrueDivToMulByInverse()(gm, reverse=True)
    (after,) = (node.args[1] for node in gm.graph.nodes if node.op == "call_function")
    assert after == before
    assert type(after) is type(before)


@given(exponent=st.integers(-30, 30))
def test_a_power_of_two_keeps_the_bits(exponent: int) -> None:
    gm = divide(2.0**exponent)
    (unknown,) = ChangeTrueDivToMulByInverse().scan(gm).matches
    assert ChangeTrueDivToMulByInverse().exactness(unknown) is Exactness.ROUNDING, "it may be complex"
    assert "complex numbers may differ" in ChangeTrueDivToMulByInverse().explain(unknown)
    ShapeProp(gm).propagate(X)
    before = gm(X)
    (match,) = ChangeTrueDivToMulByInverse().scan(gm).matches
    assert ChangeTrueDivToMulByInverse().exactness(match) is Exactness.BITWISE
    assert torch.equal(ChangeTrueDivToMulByInverse()(gm)(X), before)


def test_another_divisor_is_declared_as_rounding() -> None:
    (match,) = ChangeTrueDivToMulByInverse().scan(divide(49)).matches
    assert ChangeTrueDivToMulByInverse().exactness(match) is Exactness.ROUNDING


@pytest.mark.parametrize("divisor", [0, 0.0, -0.0, math.inf, -math.inf, math.nan, 1e-310, 1e39, 1e-39, 10**400])
def test_a_divisor_without_a_normal_inverse_is_left_alone(divisor: float) -> None:
    assert_left_alone(ChangeTrueDivToMulByInverse(), divide(divisor), "the ")


def test_half_precision_has_its_own_limits() -> None:
    gm = captured(lambda m, x: x / 1e5, X.half())
    assert_left_alone(ChangeTrueDivToMulByInverse(), gm, "outside of the normal numbers of float16")


@pytest.mark.parametrize(
    ("forward", "parts"),
    [
        (lambda m, x: x / x.abs().sum(), ["is not a constant number"]),
        (lambda m, x: 2 / x, ["divides a constant by a tensor"]),
        (lambda m, x: torch.div(x, 2, rounding_mode="floor"), ["rounds to whole numbers (floor)"]),
        (lambda m, x: x.div(2, rounding_mode="trunc"), ["rounds to whole numbers (trunc)"]),
        (lambda m, x: x.to(torch.complex64) / 3, ["complex64"]),
    ],
)
def test_other_divisions_are_left_alone(forward: Callable[..., Any], parts: list[str]) -> None:
    assert_left_alone(ChangeTrueDivToMulByInverse(), captured(forward, X), *parts)


def test_a_size_is_left_alone_because_its_quotient_must_be_exact() -> None:
    class Half(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[: int(x.size(0) / 49)]

    graph = torch.fx.Graph()
    x = graph.placeholder("x", torch.Tensor)
    size = graph.call_method("size", (x, 0))
    part = graph.call_function(operator.truediv, (size, 49))
    graph.output(graph.call_function(int, (part,)))
    gm = GraphModule(nn.Module(), graph)
    assert_left_alone(ChangeTrueDivToMulByInverse(), gm, "size is not known to be a tensor", "fxopt.capture")
    assert gm(torch.empty(343)) == 7
    model = fxopt.capture(Half(), (torch.empty(343, 2),))
    ChangeTrueDivToMulByInverse()(model)
    assert model(torch.ones(343, 2)).shape == (7, 2)


def test_an_integer_tensor_gives_the_same_floats() -> None:
    x = torch.arange(-50, 50)
    gm = captured(lambda m, x: x / 8, x)
    before = gm(x)
    assert torch.equal(ChangeTrueDivToMulByInverse()(gm)(x), before)


def test_what_is_not_known_to_be_a_tensor_is_left_alone() -> None:
    gm = torch.fx.symbolic_trace(lambda x: x / 8)
    assert gm(Fraction(1, 3)) == Fraction(1, 24)
    assert_left_alone(ChangeTrueDivToMulByInverse(), gm, "x is not known to be a tensor", "annotate")


def test_back_to_back_divisions_are_all_rewritten() -> None:
    gm = fxopt.capture(Net(lambda m, x: x / 3 / 5 / 7), (X,))
    assert_close_and_reversible(ChangeTrueDivToMulByInverse(), gm, X, sites=3)


@pytest.mark.parametrize(("buckets", "largest"), [(8, 26), (12, 128), (16, 21)])
def test_relative_positions_stay_in_their_buckets(buckets: int, largest: int) -> None:
    """The buckets of T5 (Raffel et al. 2020): the logarithm of a distance, divided twice and made a whole number."""

    def forward(m: Any, distance: torch.Tensor) -> torch.Tensor:
        exact = buckets // 4
        far = torch.log(distance / exact) / math.log(largest / exact) * exact
        bucket = exact + far.to(torch.long)
        return torch.where(distance < exact, distance.long(), bucket.clamp(max=2 * exact - 1))

    distances = torch.arange(1.0, 400)
    gm, pass_ = captured(forward, distances), ChangeTrueDivToMulByInverse()
    old, sites = gm(distances), 0 if buckets == 12 else 1  # the others divide by a power of two first, which is exact
    assert len(pass_.scan(gm).matches) == sites
    assert torch.equal(pass_(gm)(distances), old)
    pass_.undo(gm)
    gm.recompile()
    check_pass(pass_, [(gm, (distances,))], needs_sites=sites > 0)
