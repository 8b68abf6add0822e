"""Two linear layers in a row become one where it is cheaper; a bottleneck stays."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from fxopt import JoinLinears
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
BOTH = [(True, True), (True, False), (False, True), (False, False)]


def pair(first_bias: bool = True, second_bias: bool = True, inner: int = 16) -> dict[str, nn.Module]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return {"a": nn.Linear(4, inner, bias=first_bias), "b": nn.Linear(inner, 6, bias=second_bias)}


def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
    y: torch.Tensor = torch.tanh(m.b(m.a(x)))
    return y


PATTERNS = (
    [("linear", 0, 0), ("linear", 0, 0), ("pointwise", 0, 0)],
    [("linear", 0, 0), ("linear", 0, 1), ("ask", 1, 0)],
)
EXAMPLES = (Example("linears in a row", lambda: Net(forward, **pair()), ((3, 4),)),)


@pytest.mark.parametrize("biases", BOTH)
def test_two_linears_become_one(biases: tuple[bool, bool]) -> None:
    gm = captured(forward, X, **pair(*biases))
    assert_close_and_reversible(JoinLinears(), gm, X)
    (node,) = [node for node in JoinLinears()(gm).graph.nodes if node.op == "call_module"]
    joined = gm.get_submodule(str(node.target))
    assert str(joined) == f"Linear(in_features=4, out_features=6, bias={any(biases)})"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_it_is_as_exact_in_every_dtype(dtype: torch.dtype) -> None:
    assert_as_exact_as_before(JoinLinears(), forward, X.to(dtype), **pair())


def test_the_laws_hold() -> None:
    assert check_pass(JoinLinears(), [(Net(forward, **pair()).eval(), (X,))]).sites == 1


def test_a_bottleneck_stays() -> None:
    gm = captured(forward, X, **pair(inner=2))
    assert_left_alone(JoinLinears(), gm, "one layer takes 24 multiplications a row, and the two take 20")


def test_layers_of_two_dtypes_or_with_weights_that_overflow_stay() -> None:
    layers = pair()
    gm = captured(forward, X, **layers)
    gm.get_submodule("b").double()
    assert_left_alone(JoinLinears(), gm, "a is torch.float32 on cpu but b is torch.float64 on cpu")
    layers = pair()
    gm = captured(forward, X, **layers)
    with torch.no_grad():
        layers["a"].weight.fill_(1e30)  # type: ignore[operator, union-attr]
        layers["b"].weight.fill_(1e30)  # type: ignore[operator, union-attr]
    assert_left_alone(JoinLinears(), gm, "the product of the weights may leave the range of torch.float32")


def test_a_first_result_that_is_read_and_a_layer_that_is_shared_or_hooked_stay() -> None:
    read = captured(lambda m, x: (y := m.a(x), m.b(y) + y.sum())[1], X, **pair())
    assert_left_alone(JoinLinears(), read, "a is also read by sum_1")
    shared = captured(lambda m, x: m.b(m.a(x)) + m.b(m.a(x + 1)), X, **pair())
    assert_left_alone(JoinLinears(), shared, "is called 2 times")
    layers = pair()
    prune.l1_unstructured(layers["a"], "weight", 0.5)
    assert_left_alone(JoinLinears(), captured(forward, X, **layers), "forward pre hook")


def test_a_layer_that_is_frozen_and_one_that_trains_stay() -> None:
    layers = pair()
    layers["a"].weight.requires_grad_(False)  # type: ignore[operator, union-attr]
    assert_left_alone(JoinLinears(), captured(forward, X, **layers), "b trains, and a is frozen")


def test_an_exported_program_and_functions_are_joined_alike() -> None:
    model = Net(forward, **pair(False, False)).eval()
    gm = torch.export.export(model, (X,)).module()
    before = gm(X)
    assert len(JoinLinears().scan(gm).matches) == 1  # type: ignore[arg-type]
    torch.testing.assert_close(JoinLinears()(gm)(X), before)  # type: ignore[arg-type]


def test_its_gradients_reach_the_new_weights() -> None:
    gm = JoinLinears()(captured(forward, X, **pair()))
    gm(X).sum().backward()
    assert all(parameter.grad is not None for parameter in gm.parameters())
