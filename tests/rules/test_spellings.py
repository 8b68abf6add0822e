"""Any spelling of the pattern matches, and calls that only look alike do not."""

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.fx import GraphModule

import fxopt
from tests.passes.asserts import Net, assert_close_and_reversible, captured
from tests.quick import third
from tests.rules.rules import X, fold_scale, linear, replaced, use_silu

SCALED: dict[str, Callable[..., Any]] = {
    "operator": lambda m, x: m.a(x) * 2.0,
    "operands turned": lambda m, x: 2.0 * m.a(x),
    "function": lambda m, x: torch.mul(m.a(x), 2.0),
    "keywords": lambda m, x: torch.mul(other=2.0, input=m.a(input=x)),
    "method": lambda m, x: m.a(x).mul(2.0),
    "method by keyword": lambda m, x: m.a(x).mul(other=2.0),
    "second name": lambda m, x: torch.multiply(m.a(x), 2.0),
    "ATen": lambda m, x: torch.ops.aten.mul.Tensor(m.a(x), 2.0),
    "ATen scalar": lambda m, x: torch.ops.aten.mul.Scalar(m.a(x), 2.0),
    "int": lambda m, x: m.a(x) * 2,
}


@pytest.mark.parametrize("forward", SCALED.values(), ids=SCALED)
def test_any_spelling_of_the_pattern_will_do(forward: Callable[..., Any]) -> None:
    assert_close_and_reversible(fold_scale, captured(forward, X, a=linear()), X)


PAIRS: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = [
    (lambda x: x / 2, lambda x: torch.true_divide(x, 2)),
    (lambda x: x / 2, lambda x: x.div(2)),
    (lambda x: x / 2, lambda x: torch.ops.aten.div.Tensor(x, 2)),
    (lambda x: x / 2, lambda x: torch.div(x, 2, rounding_mode=None)),
    (lambda x: x + x, lambda x: torch.add(x, x, alpha=1)),
    (lambda x: 1 - x, lambda x: torch.rsub(x, 1)),
    (lambda x: x @ x.t(), lambda x: torch.matmul(x, other=x.t())),
    (lambda x: x**2, lambda x: torch.pow(x, 2)),
    (lambda x: F.relu(x), lambda x: x.relu()),
    (lambda x: F.relu(x), lambda x: torch.ops.aten.relu.default(x)),
    (lambda x: nn.ReLU()(x), lambda x: torch.relu(x)),
    (lambda x: F.gelu(x), lambda x: torch.ops.aten.gelu.default(x, approximate="none")),
    (lambda x: F.silu(x), lambda x: torch.ops.aten.silu.default(x)),
    (lambda x: F.softmax(x, -1), lambda x: x.softmax(dim=-1)),
    (lambda x: F.softmax(x, -1), lambda x: torch.ops.aten.softmax.int(x, 1)),
    (lambda x: F.softmax(x, dim=-1), lambda x: torch.softmax(x, 1)),
    (lambda x: F.dropout(x, 0.1, False), lambda x: torch.dropout(x, 0.1, train=False)),
    (lambda x: F.layer_norm(x, (4,)), lambda x: torch.layer_norm(x, [4], eps=1e-5)),
    (lambda x: F.linear(x, x), lambda x: torch.ops.aten.linear.default(x, x, None)),
    (lambda x: x.view(-1), lambda x: x.reshape(-1)),
    (lambda x: x.view(2, 6), lambda x: torch.reshape(x, (2, 6))),
    (lambda x: x.view(2, 6), lambda x: torch.ops.aten.view.default(x, [2, 6])),
    (lambda x: x.permute(1, 0), lambda x: torch.permute(x, (1, 0))),
    (lambda x: x.transpose(0, 1), lambda x: torch.swapaxes(x, 1, 0)),
    (lambda x: x.transpose(0, 1), lambda x: x.transpose(-1, -2)),
    (lambda x: x.sum(1), lambda x: torch.sum(x, dim=(1,))),
    (lambda x: x.sum(1), lambda x: x.sum(axis=1, keepdims=False)),
    (lambda x: torch.cat([x, x]), lambda x: torch.concat((x, x), dim=0)),
    (lambda x: torch.split(x, 2, 1)[0], lambda x: x.split(2, dim=1)[0]),
    (lambda x: torch.einsum("ij->ji", x), lambda x: torch.einsum("ij->ji", x)),
]


def apply(function: Callable[[Any], Any], module: nn.Module, x: torch.Tensor) -> Any:
    return function(x)


@pytest.mark.parametrize("pair", third(PAIRS), ids=range(len(PAIRS)))
def test_equal_spellings_match_each_other(pair: tuple[Callable[[Any], Any], Callable[[Any], Any]]) -> None:
    for a, b in (pair, pair[::-1]):
        gm = fxopt.capture(Net(functools.partial(apply, b)), (X,))
        assert len(replaced(a).scan(gm).matches) == 1


UNEQUAL: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = [
    (lambda x: x / 2, lambda x: torch.div(x, 2, rounding_mode="floor")),
    (lambda x: x / 2, lambda x: x / 2.0),
    (lambda x: x * 1, lambda x: x * True),
    (lambda x: x + x, lambda x: torch.add(x, x, alpha=2)),
    (lambda x: x + 1, lambda x: x.clone().add_(1)),
    (lambda x: F.relu(x), lambda x: F.relu(x.clone(), inplace=True)),
    (lambda x: F.relu(x), lambda x: x.clone().relu_()),
    (lambda x: x + 1, lambda x: torch.add(x, 1, out=torch.empty(3, 4))),
    (lambda x: F.gelu(x), lambda x: F.gelu(x, approximate="tanh")),
    (lambda x: x - 1, lambda x: 1 - x),
    (lambda x: F.softmax(x, -1), lambda x: F.softmax(x, 0)),
    (lambda x: x.view(2, 6), lambda x: x.view(6, 2)),
    (lambda x: x.view(torch.int32).view(torch.float32), lambda x: x.view(3, 4).view(3, 4)),
    (lambda x: F.dropout(x, 0.1, False), lambda x: F.dropout(x, 0.2, False)),
    (lambda x: x + 0.0, lambda x: x + -0.0),
    (lambda x: x * 2, lambda x: x * x.size(0)),
]


@pytest.mark.parametrize("pair", UNEQUAL, ids=range(len(UNEQUAL)))
def test_unequal_spellings_do_not(pair: tuple[Callable[[Any], Any], Callable[[Any], Any]]) -> None:
    a, b = pair
    assert replaced(a).scan(fxopt.capture(Net(lambda m, x: b(x)), (X,), verify=False)).matches == ()


def test_modules_without_state_are_spellings_unless_they_are_not_what_they_seem() -> None:
    class Leaky(nn.ReLU):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.leaky_relu(x)

    hooked = nn.ReLU()
    hooked.register_forward_hook(lambda module, args, output: output * 2)
    rule = replaced(F.relu)
    for module, sites in ((nn.ReLU(), 1), (nn.ReLU(inplace=True), 0), (Leaky(), 0), (hooked, 0)):
        gm = torch.fx.GraphModule({"act": module}, one_call())
        assert len(rule.scan(gm).matches) == sites


def one_call() -> torch.fx.Graph:
    graph = torch.fx.Graph()
    graph.output(graph.call_module("act", (graph.placeholder("x", torch.Tensor),)))
    return graph


def test_an_exported_program_is_read_too() -> None:
    exported = torch.export.export(Net(lambda m, x: x * torch.sigmoid(x)), (X,)).module()
    assert isinstance(exported, GraphModule)
    assert_close_and_reversible(use_silu, exported, X)
