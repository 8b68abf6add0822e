"""Who reads no more of a tensor than its shape, dtype and device, and the passes' use of such readers."""

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx import Graph, GraphModule, Node

import fxopt
from fxopt import ALL_PASSES, Pass, fingerprint
from fxopt.core import GraphIndex, readers_of, reads_metadata_only
from fxopt.graph.metadata import _ATTRIBUTES
from fxopt.testing import check_pass
from tests.examples import EXAMPLES, AskingNorm, outputs
from tests.fuzz.rules import add_linears, fold_scale, join_linears
from tests.passes.asserts import captured

aten = torch.ops.aten
Ask = Callable[[Graph, Node, Node], Node]

QUESTIONS: dict[str, Ask] = {
    **{name: (lambda g, x, _, name=name: g.call_function(getattr, (x, name))) for name in sorted(_ATTRIBUTES)},
    ".size()": lambda g, x, _: g.call_method("size", (x,)),
    ".size(0)": lambda g, x, _: g.call_method("size", (x, 0)),
    ".dim()": lambda g, x, _: g.call_method("dim", (x,)),
    ".numel()": lambda g, x, _: g.call_method("numel", (x,)),
    ".type()": lambda g, x, _: g.call_method("type", (x,)),
    ".get_device()": lambda g, x, _: g.call_method("get_device", (x,)),
    ".is_floating_point()": lambda g, x, _: g.call_method("is_floating_point", (x,)),
    "torch.numel": lambda g, x, _: g.call_function(torch.numel, (x,)),
    "torch.is_tensor": lambda g, x, _: g.call_function(torch.is_tensor, (x,)),
    "len": lambda g, x, _: g.call_function(len, (x,)),
    "aten.sym_size": lambda g, x, _: g.call_function(aten.sym_size.int, (x, 1)),
    "an assertion of dtype": lambda g, x, _: g.call_function(
        aten._assert_tensor_metadata.default, (x, None, None, torch.float32)
    ),
    ".view_as": lambda g, x, y: g.call_method("view_as", (y, x)),
    ".reshape_as": lambda g, x, y: g.call_method("reshape_as", (y, x)),
    ".expand_as": lambda g, x, y: g.call_method("expand_as", (y, x)),
    ".type_as": lambda g, x, y: g.call_method("type_as", (y, x)),
    ".to": lambda g, x, y: g.call_method("to", (y, x)),
    ".to(tensor=)": lambda g, x, y: g.call_method("to", (y,), {"tensor": x}),
    ".new_zeros": lambda g, x, _: g.call_method("new_zeros", (x, (2, 2))),
}

NUMBERS: dict[str, Ask] = {
    "T": lambda g, x, _: g.call_function(getattr, (x, "T")),
    "data": lambda g, x, _: g.call_function(getattr, (x, "data")),
    "requires_grad": lambda g, x, _: g.call_function(getattr, (x, "requires_grad")),
    ".stride()": lambda g, x, _: g.call_method("stride", (x,)),
    ".is_contiguous()": lambda g, x, _: g.call_method("is_contiguous", (x,)),
    ".data_ptr()": lambda g, x, _: g.call_method("data_ptr", (x,)),
    "an assertion of strides": lambda g, x, _: g.call_function(aten._assert_tensor_metadata.default, (x, None, [1, 1])),
    ".view_as of itself": lambda g, x, _: g.call_method("view_as", (x, x)),
    ".view_as as the first": lambda g, x, y: g.call_method("view_as", (x, y)),
    ".to a dtype": lambda g, x, _: g.call_method("to", (x, torch.float64)),
    ".type of a dtype": lambda g, x, _: g.call_method("type", (x, torch.float64)),
    ".new_tensor of itself": lambda g, x, _: g.call_method("new_tensor", (x, x)),
    "zeros_like, which keeps strides": lambda g, x, _: g.call_function(torch.zeros_like, (x,)),
    ".sum()": lambda g, x, _: g.call_method("sum", (x,)),
    "a function of one's own that is called size": lambda g, x, _: g.call_function(size, (x,)),
}


def size(x: torch.Tensor) -> torch.Tensor:
    return x.sum()


def asked(ask: Ask) -> tuple[GraphModule, Node, Node]:
    graph = Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    made = ask(graph, x, y)
    graph.output(made)
    return GraphModule(nn.Module(), graph), x, made


@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)
def test_a_question_has_one_answer_for_all_numbers_and_strides(ask: Ask) -> None:
    gm, x, made = asked(ask)
    assert reads_metadata_only(made, x)
    assert readers_of(x) == []
    y = torch.randn(3, 3)
    one, other = gm(torch.randn(3, 3), y), gm(torch.randn(3, 3).t(), y)
    assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


@pytest.mark.parametrize("ask", NUMBERS.values(), ids=NUMBERS)
def test_whoever_reads_more_is_a_user(ask: Ask) -> None:
    _, x, made = asked(ask)
    assert not reads_metadata_only(made, x)


def test_a_size_shares_no_memory_and_what_is_viewed_like_a_tensor_is_no_view_of_it() -> None:
    graph = Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    rows = graph.call_function(operator.getitem, (graph.call_function(getattr, (x, "shape")), 0))
    sized, like = graph.call_method("view", (y, rows, -1)), graph.call_method("view_as", (y, x))
    graph.output((sized, like))
    index = GraphIndex(GraphModule(nn.Module(), graph))
    for view in (sized, like):
        assert index.may_share_memory(view, y)
        assert not index.may_share_memory(view, x)


CONVS = [("FoldBatchNorm", 3), ("FuseBatchNorm2dInConv2d", 1), ("FuseBatchNorm1dInLinear", 2)]


@pytest.mark.parametrize(("name", "sites"), CONVS)
def test_every_fold_goes_past_readers_of_metadata(name: str, sites: int) -> None:
    (pass_,) = (kind() for kind in ALL_PASSES if kind.__name__ == name)
    (asking,) = (example for example in EXAMPLES if example.name == "asking")
    assert len(pass_.scan(asking.graph()).matches) == sites


def test_a_norm_that_asserts_the_number_of_dimensions_is_folded() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), AskingNorm(4), nn.Conv2d(4, 4, 1), AskingNorm(4)).eval()
    gm = fxopt.capture(model, (torch.rand(2, 3, 5, 5),))
    assert sum(node.target is getattr for node in gm.graph.nodes) == 2
    for pass_ in (fxopt.FoldBatchNorm(), fxopt.FuseBatchNorm2dInConv2d()):
        assert len(pass_.scan(gm).matches) == 2


RULES: list[tuple[Pass[Any], Callable[..., Any]]] = [
    (fold_scale, lambda m, x: _after(m.a(x), lambda h: h * 2.0)),
    (fold_scale, lambda m, x: _before(m.a(x), lambda h: h * 2.0)),
    (fold_scale, lambda m, x: _between(m.wide(x), lambda h: h * 2.0)),
    (join_linears, lambda m, x: _after(m.a(x), m.b)),
    (join_linears, lambda m, x: _between(m.a(x), m.b)),
    (join_linears, lambda m, x: _before(m.wide(x), m.wide_too)),
    (add_linears, lambda m, x: _before(m.a(x), lambda h: h + m.b(x))),
    (add_linears, lambda m, x: _between(m.a(x), lambda h: m.b(x) + h)),
    (add_linears, lambda m, x: _between(m.wide(x), lambda h: m.wider(x) + h)),
]


def _after(h: torch.Tensor, root: Callable[..., torch.Tensor]) -> torch.Tensor:
    y = root(h)
    return y.view(h.shape[0], -1) * h.ndim


def _before(h: torch.Tensor, root: Callable[..., torch.Tensor]) -> torch.Tensor:
    torch._assert(h.ndim == 2, "rows")
    return root(h)


def _between(h: torch.Tensor, root: Callable[..., torch.Tensor]) -> torch.Tensor:
    rows, kind = h.size(0), h.dtype
    return root(h).view(rows, -1).to(kind)


@pytest.mark.parametrize(("rule", "forward"), RULES)
def test_every_rule_goes_past_readers_of_metadata(rule: Pass[Any], forward: Callable[..., Any]) -> None:
    x = torch.randn(3, 4)
    layers = {"a": nn.Linear(4, 4), "b": nn.Linear(4, 4), "wide": nn.Linear(4, 6), "wider": nn.Linear(4, 6),
              "wide_too": nn.Linear(6, 6)}  # fmt: skip
    gm = captured(forward, x, **layers)
    before, old = fingerprint(gm), outputs(gm, (x,))
    (match,) = rule.scan(gm).matches
    rule(gm)
    gm.graph.lint()
    assert match.captured[-1].name not in {node.name for node in gm.graph.nodes}
    torch.testing.assert_close(outputs(gm, (x,)), old)
    assert rule.scan(gm).matches == ()
    rule(gm, reverse=True)
    assert fingerprint(gm) == before
    check_pass(rule, [(gm, (x,))])


def test_a_rule_leaves_alone_what_is_asked_of_a_value_that_goes_where_nothing_else_has_its_shape() -> None:
    gm = captured(lambda m, x: _before(m.a(x), m.b), torch.randn(3, 4), a=nn.Linear(4, 6), b=nn.Linear(6, 5))
    (miss,) = join_linears.scan(gm).misses
    assert "reads metadata of a" in miss.reason


def test_a_rule_leaves_alone_a_value_that_is_asked_before_what_it_needs_is_there() -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        h = m.a(x)
        torch._assert(h.ndim == 2, "rows")
        x.add_(1)
        return h * 2.0  # type: ignore[no-any-return]

    gm = captured(forward, torch.randn(3, 4), a=nn.Linear(4, 6))
    (miss,) = fold_scale.scan(gm).misses
    assert "may change x in place" in miss.reason


class AskingOfWeights(nn.Module):
    """Inputs are brought to the dtype and device of weights, as many models write it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4)
        self.q, self.k, self.out = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.bn(self.conv(x.to(self.conv.weight.dtype)))
        x = x.mean((2, 3)).to(self.bn.weight.device)
        x = self.q(x) * self.k.weight.shape[0] + self.k(x).to(self.k.bias.dtype)
        return self.out(x.to(self.out.weight.dtype)) * 3.0


ASKED_OF_WEIGHTS: list[tuple[Pass[Any], int]] = [
    (fxopt.FuseBatchNorm2dInConv2d(), 1),
    (fxopt.FoldBatchNorm(), 1),
    (fxopt.MergeLinears(), 1),
    (fxopt.MergeLinears(keep="view"), 1),
    (fold_scale, 1),
    (fxopt.FuseBiasInLinear(), 1),
]


@pytest.mark.parametrize(("pass_", "sites"), ASKED_OF_WEIGHTS, ids=lambda p: getattr(p, "name", str(p)))
def test_whoever_asks_for_the_dtype_of_a_weight_keeps_no_pass_away(pass_: Pass[Any], sites: int) -> None:
    x = torch.randn(2, 3, 5, 5)
    report = check_pass(pass_, [(AskingOfWeights().eval(), (x,))])
    assert report.sites == sites


def test_a_bias_is_not_fused_where_the_shape_of_its_weight_is_asked_for() -> None:
    gm = fxopt.capture(AskingOfWeights().eval(), (torch.randn(2, 3, 5, 5),))
    misses = {miss.site: miss.reason for miss in fxopt.FuseBiasInLinear().scan(gm).misses}
    assert set(misses) == {"k", "out"}
    assert all("asks for the shape or dtype of" in reason for reason in misses.values())
