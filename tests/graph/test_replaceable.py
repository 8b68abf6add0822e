"""The conditions under which a copy gives way to its original."""

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.fx import GraphModule, Node

import fxopt
from fxopt import Match, Miss, Pass, Rewriter
from fxopt.core import Conditions, Exactness, GraphIndex, decide, read_instead_conditions
from tests.passes.asserts import Net, assert_left_alone, captured

X = torch.linspace(-1, 1, 12).view(3, 4)


class DropOne(Pass[Match]):
    """Replace `x * 1` with `x`."""

    targets = (operator.mul,)

    def match(self, node: Node, index: GraphIndex) -> Match | Miss | None:
        return decide(node, self._conditions(node, index)) if node.args[1] == 1 else None

    def _conditions(self, node: Node, index: GraphIndex) -> Conditions[Match]:
        x = node.args[0]
        assert isinstance(x, Node)
        yield from read_instead_conditions(node, x, index)
        return Match(node)

    def explain(self, match: Match) -> str:
        return f"{match.anchor.name} is its input"

    def exactness(self, match: Match) -> Exactness:
        return Exactness.BITWISE

    def rewrite(self, match: Match, rewriter: Rewriter) -> None:
        x = match.anchor.args[0]
        assert isinstance(x, Node)
        rewriter.replace(match.anchor, x)


@fxopt.rewrite(exactness=Exactness.BITWISE)
def drop_one(x):
    """Replace `x * 1` with `x`."""
    yield x * 1
    return x


EITHER = pytest.mark.parametrize("pass_", [DropOne(), drop_one], ids=lambda pass_: pass_.name)


def written_behind(m: Any, x: torch.Tensor) -> Any:
    y = torch.cos(x)
    kept = y * 1
    y.add_(1)
    return kept.sum() + y


def written_ahead(m: Any, x: torch.Tensor) -> Any:
    y = torch.cos(x)
    own = y * 1
    own.add_(1)
    return y + own


def written_by_a_view(m: Any, x: torch.Tensor) -> Any:
    y = torch.cos(x)
    own = y * 1
    own.view(-1)[:2].zero_()
    return y + own


def the_callers_tensor_written(m: Any, x: torch.Tensor) -> Any:
    own = x * 1
    own.relu_()
    return own + 2


def both_returned(m: Any, x: torch.Tensor) -> Any:
    y = torch.cos(x)
    return y * 1, y.view(-1)


LEFT: dict[str, tuple[Callable[..., Any], str]] = {
    "the input is returned": (lambda m, x: x * 1, "is returned, and would be the caller's own x"),
    "a view of the input is returned": (lambda m, x: (x * 1).t().unsqueeze(0), "would be the caller's own x"),
    "a parameter is returned": (lambda m, x: (m.l.weight * 1, x + 1), "would be the model's own l.weight"),
    "both are returned": (both_returned, "are both returned, and would share memory"),
    "the source is written to": (written_behind, "add_ may change cos in place later"),
    "the copy is written to": (written_ahead, "add_ may change mul in place later"),
    "a view of the copy is written to": (written_by_a_view, "may change mul in place later"),
    "the caller's tensor is written to": (the_callers_tensor_written, "relu_ may change mul in place later"),
    "gaps before a view": (lambda m, x: (torch.cos(x)[:, :2] * 1).view(-1) + 1, "may lie otherwise"),
    "the caller's strides before a view": (lambda m, x: (x * 1).view(-1) + 1, "x may lie otherwise"),
    "gaps in an output": (lambda m, x: torch.cos(x)[:, :2] * 1, "may lie otherwise"),
    "gaps before a sum": (lambda m, x: (torch.cos(x)[:, :2] * 1).mean(), "mean may add up the numbers of mul in"),
    "another dtype": (lambda m, x: (x > 0) * 1 + 2, "mul is int64 batch x samples, but gt is bool batch"),
}  # fmt: skip


@EITHER
@pytest.mark.parametrize(("forward", "reason"), LEFT.values(), ids=LEFT)
def test_a_difference_that_shows_is_a_reason_to_leave_it(pass_: Pass[Any], forward: Any, reason: str) -> None:
    gm = captured(forward, X, l=nn.Linear(4, 4))
    assert_left_alone(pass_, gm, reason)
    (miss,) = pass_.scan(gm).misses
    assert miss.actual
    assert miss.needed


def written_to_alone(m: Any, x: torch.Tensor) -> Any:
    return (m.l(x) * 1).relu_().view(-1)


def turned(m: Any, x: torch.Tensor) -> Any:
    return (torch.cos(x.t()) * 1).t().view(-1)


def written_before(m: Any, x: torch.Tensor) -> Any:
    y = torch.cos(x)
    y.add_(1)
    return (y * 1).sum() + y


DROPPED: dict[str, Callable[..., Any]] = {
    "inside": lambda m, x: torch.cos(x * 1) + x,
    "a new tensor is returned": lambda m, x: torch.cos(x) * 1,
    "a new tensor that nobody else reads is written to": written_to_alone,
    "a new tensor has the same strides": turned,
    "nothing relies on the strides": lambda m, x: (x[:, :2] * 1).reshape(-1).cos(),
    "it was written to before": written_before,
}


@EITHER
@pytest.mark.parametrize("forward", DROPPED.values(), ids=DROPPED)
def test_a_copy_that_nobody_can_tell_from_its_source_goes(pass_: Pass[Any], forward: Callable[..., Any]) -> None:
    gm = captured(forward, X, l=nn.Linear(4, 4))
    before, start = gm(X.clone()), fxopt.fingerprint(gm)
    assert len(pass_.scan(gm).matches) == 1
    pass_(gm)
    assert not any(node.target is operator.mul for node in gm.graph.nodes)
    given = X.clone()
    assert torch.equal(gm(given), before)
    assert torch.equal(given, X)
    assert fxopt.fingerprint(pass_(gm, reverse=True)) == start


@EITHER
def test_what_is_not_known_to_have_one_dtype_is_left_alone(pass_: Pass[Any]) -> None:
    gm = torch.fx.symbolic_trace(Net(lambda m, x: torch.cos(x * 1)))
    assert_left_alone(pass_, gm, "the shape and dtype of mul are unknown", "fxopt.capture")


@fxopt.rewrite(exactness=Exactness.BITWISE)
def turn_back(x):
    """Replace `x.t().t()` with `x`."""
    yield x.t().t()
    return x


@fxopt.rewrite(exactness=Exactness.BITWISE)
def drop_identity(x, identity: nn.Identity):
    """Replace `identity(x)` with `x`."""
    yield identity(x)
    return x


def identity_written(m: Any, x: torch.Tensor) -> Any:
    y = torch.cos(x)
    same = m.i(y)
    y.add_(1)
    return same.view(-1) + y.view(-1)


@pytest.mark.parametrize(
    ("rule", "forward"),
    [
        (turn_back, lambda m, x: x.t().t()),
        (turn_back, lambda m, x: x.t().t().view(-1).add_(1)),
        (drop_identity, lambda m, x: m.i(x)),
        (drop_identity, identity_written),
    ],
)
def test_a_view_of_the_same_memory_gives_way_whatever_is_written(rule: Pass[Any], forward: Any) -> None:
    gm = torch.fx.GraphModule(net := Net(forward, i=nn.Identity()), KeepIdentity().trace(net))
    fill(gm)
    before = gm(X.clone())
    assert len(rule.scan(gm).matches) == 1
    assert torch.equal(rule(gm)(X.clone()), before)


class KeepIdentity(torch.fx.Tracer):
    """Traces identities as modules, which capture leaves out."""


def fill(gm: GraphModule) -> None:
    torch.fx.passes.shape_prop.ShapeProp(gm).propagate(X.clone())


def test_a_rule_that_returns_rows_of_a_product_says_that_a_view_may_not_take_them() -> None:
    @fxopt.rewrite
    def halves(x, *linears: nn.Linear):
        """Replace linears that read one input with parts of one product."""
        yield [linear(x) for linear in linears]
        merged = nn.Linear(4, 8)
        merged.weight = nn.Parameter(torch.cat([linear.weight for linear in linears]))
        merged.bias = nn.Parameter(torch.cat([linear.bias for linear in linears]))
        return merged(x).chunk(2, -1)

    gm = captured(lambda m, x: m.a(x).view(-1) + m.b(x).view(-1), X, a=nn.Linear(4, 4), b=nn.Linear(4, 4))
    assert_left_alone(halves, gm, "may rely on how it lies in memory", ".contiguous()")


@fxopt.rewrite(exactness=Exactness.BITWISE)
def drop_cat(x):
    """Replace `torch.cat([x])` with `x`."""
    yield torch.cat([x])
    return x


def test_attention_in_one_call_lies_as_its_query_does() -> None:
    q = torch.randn(2, 5, 2, 4)

    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        heads = torch.neg(x).transpose(1, 2)
        return torch.cat([F.scaled_dot_product_attention(heads, heads, heads)]).view(2, 2, 20)

    assert not F.scaled_dot_product_attention(*[q.transpose(1, 2)] * 3).is_contiguous()
    assert_left_alone(drop_cat, captured(forward, q), "scaled_dot_product_attention may lie otherwise")
