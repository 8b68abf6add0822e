"""A value that was computed already is read again; where the two may be told apart, both calls stay."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fxopt import ShareCommonSubexpressions
from fxopt.core import GraphIndex
from fxopt.testing import Case, check, check_pass, laws
from tests.examples import Example
from tests.passes.asserts import Net, assert_left_alone, captured, traced

X = torch.linspace(-2, 3, 24).reshape(2, 3, 4)
Forward = Callable[[Any, torch.Tensor], Any]


class Twice(nn.Module):
    """A linear called twice on one input, and views and sizes that are asked for twice."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = torch.tanh(self.linear(x)).view(x.size(0), -1)
        second = torch.sigmoid(self.linear(x)).view(x.size(0), -1)
        return first * second + x.transpose(0, 1).sum() * x.transpose(0, 1).mean()


PATTERNS = (
    [("pointwise", 0, 0), ("pointwise", 1, 0), ("combine", 0, 1)],
    [("scale", 0, 0), ("write", 0, 0), ("scale", 1, 0), ("combine", 0, 1)],
    [("view", 0, 1), ("view", 1, 1), ("write", 0, 0), ("combine", 0, 1)],
    [("index", 0, 0), ("index", 1, 1)],
)
EXAMPLES = (Example("twice", Twice, ((3, 4),)),)

SHARED: dict[str, tuple[Forward, list[str]]] = {
    "a sum": (lambda m, x: (x + 1).tanh() * (x + 1), ["add_1"]),
    "a chain": (lambda m, x: (x + 1).tanh() - (x + 1).tanh() * 2, ["add_1", "tanh_1"]),
    "three times": (lambda m, x: (x + 1) * (x + 1) - (x + 1) / 2, ["add_1", "add_2"]),
    "a view": (lambda m, x: x.transpose(0, 1).sum() * x.transpose(0, 1).mean(), ["transpose_1"]),
    "by sizes": (lambda m, x: x.view(x.size(0), -1).sum() * x.view(x.size(0), -1).mean(), ["view_1"]),
    "a layer": (lambda m, x: m.linear(x).tanh() * m.linear(x), ["linear_1"]),
    "a parameter": (lambda m, x: (m.linear.weight * 2).sum() * (m.linear.weight * 2).mean() + x, ["mul_1"]),
    "new tensors": (lambda m, x: x * torch.arange(4) + torch.arange(4), ["arange_1"]),
    "a list and a tuple": (lambda m, x: torch.cat([x, x]).tanh() * torch.cat((x, x)), ["cat_1"]),
    "a write before both": (lambda m, x: (y := (x * 2).add_(1)).tanh() * y.tanh(), ["tanh_1"]),
}

LEFT: dict[str, tuple[Forward, str]] = {
    "a write in between": (
        lambda m, x: (a := (y := x * 2).tanh(), y.add_(1), a * y.tanh())[2],
        "add_ may change mul in place between tanh and tanh_1",
    ),
    "a write to the first": (
        lambda m, x: (a := x + 1, a.mul_(2), a * (x + 1))[2],
        "mul_ may change add in place between add and add_1",
    ),
    "a write to the second": (
        lambda m, x: (a := x + 1, b := x + 1, b.mul_(2), a * b)[3],
        "mul_ may change add_1 in place later, which add and add_1 then share",
    ),
    "two outputs": (lambda m, x: (x + 1, x + 1), "add and add_1 are both returned, and would be one tensor"),
}

NOTHING_TO_SAY: dict[str, Forward] = {
    "another constant": lambda m, x: (x + 1) * (x + 2),
    "another type": lambda m, x: (x + 1) * (x + 1.0),
    "another sign of zero": lambda m, x: (x + 0.0) * (x + -0.0),
    "random numbers": lambda m, x: torch.rand_like(x) * torch.rand_like(x),
    "dropout": lambda m, x: F.dropout(x, training=True) * F.dropout(x, training=True),
    "unfilled memory": lambda m, x: torch.empty_like(x).fill_(1) * torch.empty_like(x).fill_(2) + x,
    "rows and one place": lambda m, x: x[[0, 1]].sum() * x[(0, 1)].sum(),
    "a function of one's own": lambda m, x: own(x) * own(x),
}


@torch.fx.wrap
def own(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def layers() -> dict[str, nn.Module]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return {"linear": nn.Linear(4, 4)}


def between(forward: Forward) -> Forward:
    """`forward` on a tensor that nobody else has."""
    return lambda m, x: forward(m, torch.neg(x))


@pytest.mark.parametrize(("forward", "sites"), SHARED.values(), ids=SHARED)
def test_a_value_that_was_computed_already_is_read_again(forward: Forward, sites: list[str]) -> None:
    case = Case.of("net", Net(between(forward), **layers()).eval(), (X,))
    check(laws.outputs_are_as_exact_as_declared, ShareCommonSubexpressions(), case)
    gm = case.graph()
    assert [match.site for match in ShareCommonSubexpressions().scan(gm).matches] == sites
    assert [entry.site for entry in ShareCommonSubexpressions().apply(GraphIndex(gm))] == sites
    assert not [node for node in gm.graph.nodes if not node.users and node.op in ("call_method", "get_attr")]


@pytest.mark.parametrize(("forward", "reason"), LEFT.values(), ids=LEFT)
def test_what_may_be_told_apart_stays_with_its_reason(forward: Forward, reason: str) -> None:
    assert_left_alone(ShareCommonSubexpressions(), captured(between(forward), X), reason)


@pytest.mark.parametrize("forward", NOTHING_TO_SAY.values(), ids=NOTHING_TO_SAY)
def test_of_other_calls_there_is_nothing_to_say(forward: Forward) -> None:
    scan = ShareCommonSubexpressions().scan(traced(between(forward), X, **layers()))
    assert (scan.matches, scan.misses) == ((), ())


def test_a_layer_in_training_mode_or_with_a_hook_is_called_each_time() -> None:
    gm = captured(lambda m, x: m.linear(x).tanh() * m.linear(x), X, **layers())
    gm.get_submodule("linear").train()
    assert_left_alone(ShareCommonSubexpressions(), gm, "linear is in training mode", "model.eval()")
    gm.eval()
    gm.get_submodule("linear").register_full_backward_hook(lambda *_: None)
    assert_left_alone(ShareCommonSubexpressions(), gm, "linear has a backward hook")


def test_the_laws_hold() -> None:
    report = check_pass(ShareCommonSubexpressions(), [(Twice().eval(), (torch.rand(3, 4),))])
    assert report.sites == 2
