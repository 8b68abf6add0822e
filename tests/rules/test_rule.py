"""Rules: passes written as a pattern and what takes its place."""

import concurrent.futures
import copy
import functools
import operator
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.fx import GraphModule

import fxopt
from fxopt import Rule, RuleError, require
from fxopt.testing import Case, check_pass
from tests.passes.asserts import Net, assert_close_and_reversible, captured
from tests.quick import quick, third


@fxopt.rewrite
def fold_scale(x, linear: nn.Linear, c: float | int):
    """Replace `linear(x) * c` with a linear layer whose weight and bias are c times as large."""
    yield linear(x) * c
    require(c != 0, f"the factor is {c}", remedy="leave out what is multiplied by zero", actual=str(c), needed="not 0")
    bias = linear.bias * c if linear.bias is not None else None
    return fxopt.with_tensors(linear, weight=linear.weight * c, bias=bias)(x)


@fxopt.rewrite(exactness=fxopt.Exactness.BITWISE)
def remove_one(x: torch.Tensor, c: float | int):
    """Replace `x * 1` with `x`."""
    yield x * c
    require(c == 1, f"the factor is {c}", actual=str(c), needed="1")
    return x


@fxopt.rewrite
def use_silu(x):
    """Replace `x * sigmoid(x)` with `silu(x)`."""
    yield x * torch.sigmoid(x)
    return nn.SiLU()(x)


@fxopt.rewrite
def merge(x, *linears: nn.Linear, most: int = 8):
    """Replace linears that read one input with parts of one product."""
    yield [linear(x) for linear in linears]
    require(len(linears) <= most, f"there are {len(linears)} of them")
    require(all(linear.bias is not None for linear in linears), "not all have a bias")
    sizes = [linear.out_features for linear in linears]
    with torch.random.fork_rng():
        merged = nn.Linear(linears[0].in_features, sum(sizes))
    merged.weight = nn.Parameter(torch.cat([linear.weight for linear in linears]))
    merged.bias = nn.Parameter(torch.cat([linear.bias for linear in linears]))
    return merged(x).split(sizes, -1)


@fxopt.rewrite
def join(x, first: nn.Linear, second: nn.Linear):
    """Replace `second(first(x))` with one linear layer."""
    yield second(first(x))
    require(second.out_features <= first.out_features, "the product would be larger than the two")
    weight = second.weight @ first.weight
    bias = second.bias if first.bias is None else F.linear(first.bias, second.weight, second.bias)
    joined = nn.Linear(first.in_features, second.out_features, bias=bias is not None)
    joined.weight = nn.Parameter(weight)
    if bias is not None:
        joined.bias = nn.Parameter(bias)
    return joined(x)


@fxopt.rewrite(exactness=fxopt.Exactness.BITWISE)
def functional_norm(x, norm: nn.LayerNorm):
    """Replace a layer norm module with the function."""
    yield norm(x)
    return F.layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)


@fxopt.rewrite(exactness=fxopt.Exactness.BITWISE)
def remove_transposes(x, a: int, b: int):
    """Replace `x.transpose(a, b).transpose(a, b)` with `x`."""
    yield x.transpose(a, b).transpose(a, b)
    return x


@fxopt.rewrite(exactness=fxopt.Exactness.BITWISE)
def relu_once(x):
    """Replace `relu(relu(x))` with `relu(x)`."""
    h = torch.relu(x)
    yield torch.relu(h)
    return h


@fxopt.rewrite
def collect_factors(x, a: float | int, b: float | int):
    """Replace `x * a * b` with `x * (a * b)`."""
    yield x * a * b
    return x * (a * b)


RULES = [fold_scale, remove_one, use_silu, merge, join, functional_norm, remove_transposes, relu_once, collect_factors]

X = torch.linspace(-1, 1, 12).view(3, 4)


def linear(bias: bool = True, size: int = 4) -> nn.Linear:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return nn.Linear(4, size, bias=bias)


def tied() -> dict[str, nn.Module]:
    a, b = linear(), linear()
    b.weight = a.weight
    return {"a": a, "b": b}


FORWARDS: list[tuple[Callable[..., Any], dict[str, nn.Module]]] = [
    (lambda m, x: 2.0 * m.a(x) + torch.mul(other=3, input=m.b(input=x)), {"a": linear(), "b": linear(False)}),
    (lambda m, x: m.a(x) * 2.0 + m.a(x), {"a": linear()}),
    (lambda m, x: m.a(x) * 2.0 + m.b(x), tied()),
    (lambda m, x: m.b(m.a(x)) + m.c(m.a.weight).sum(), {"a": linear(size=6), "b": nn.Linear(6, 2), "c": linear()}),
    (lambda m, x: m.c(m.b(m.a(x))), {"a": linear(), "b": linear(), "c": linear(False)}),
    (lambda m, x: (m.a(x) * 2 * 3.0 * 4).mul(5) * 1.0 * 1, {"a": linear()}),
    (lambda m, x: torch.relu(F.relu(m.r(x.relu().relu()))) + m.r(x), {"r": nn.ReLU()}),
    (lambda m, x: x.transpose(0, 1).transpose(-1, 0).swapaxes(0, 1).transpose(0, 1).transpose(0, 1), {}),
    (lambda m, x: m.n(x) * m.s(m.n(x)) + F.sigmoid(x) * x, {"n": nn.LayerNorm(4), "s": nn.Sigmoid()}),
    (lambda m, x: in_place(m.a(x) * 1, m.b(x), x * 1, x), {"a": linear(), "b": linear()}),
    (lambda m, x: (m.a(x), m.b(x), m.alias(x), m.c(x) * 2), {**dict.fromkeys(("a", "alias"), linear()),
                                                             "b": linear(size=2), "c": linear()}),
    (lambda m, x: m.n(x) + m.n2(input=x) * 1, {"n": nn.LayerNorm(4), "n2": nn.LayerNorm(4, elementwise_affine=False)}),
    (lambda m, x: (m.dead(x), m.a(x) * 2.0)[1], {"a": linear(), "dead": linear()}),
]  # fmt: skip


def in_place(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    c.add_(1)
    return torch.relu(a.mul_(2) + b) + c + x


@functools.cache
def cases() -> list[Case]:
    return [Case.of(f"net {i}", Net(f, **children).eval(), (X,)) for i, (f, children) in enumerate(FORWARDS)]


@pytest.mark.parametrize(
    "rule",
    quick(RULES, remove_one),
    ids=lambda rule: rule.name,
)
def test_it_obeys_the_laws_of_passes(rule: Rule) -> None:
    report = check_pass(rule, cases())
    assert report.sites > 0


def left_alone(rule: Rule, forward: Callable[..., Any], *parts: str, **children: nn.Module) -> fxopt.Miss:
    """The nearest miss of a rule that matches nowhere and whose reason has all `parts`."""
    scan = rule.scan(captured(forward, X, **children))
    assert scan.matches == ()
    miss = scan.near_misses[0]
    assert all(part in f"{miss.reason} | {miss.remedy} | {miss.actual} | {miss.needed}" for part in parts), miss
    return miss


# ---- spellings

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


def replaced(pattern: Callable[[Any], Any]) -> Rule:
    """A rule that replaces `pattern` with a cosine."""

    def rule(x):
        yield pattern(x)
        return torch.cos(x)

    return fxopt.rewrite(rule)


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


# ---- misses


def test_a_miss_says_what_is_there_and_what_would_have_to_be() -> None:
    miss = left_alone(fold_scale, lambda m, x: m.a(x) * 0.0, "the factor is 0.0", "leave out", a=linear())
    assert (miss.actual, miss.needed) == ("0.0", "not 0")
    left_alone(fold_scale, lambda m, x: m.a(x) * x, "a literal float or int", a=linear())
    left_alone(fold_scale, lambda m, x: m.a(x).relu() * 2.0, "relu", "a Linear", a=linear())
    left_alone(use_silu, lambda m, x: x * torch.sigmoid(x + 1), "add", "x again")


def test_near_misses_are_ranked_by_how_much_is_met() -> None:
    gm = captured(lambda m, x: m.a(x).relu() * 2.0 + m.b(x) * 0.0, X, a=linear(), b=linear())
    misses = fold_scale.scan(gm).near_misses
    assert [miss.reason.startswith("the factor") for miss in misses] == [True, False]
    assert misses[0].met > misses[1].met


def test_what_has_nothing_of_the_pattern_is_no_near_miss() -> None:
    assert fold_scale.scan(captured(lambda m, x: x * x, X)).misses == ()


def test_a_layer_that_is_called_as_a_function_is_said_to_be_no_module() -> None:
    exported = torch.export.export(Net(lambda m, x: m.b(m.n(m.a(x))), **layers()).eval(), (X,)).module()
    functional = captured(lambda m, x: F.linear(x, m.a.weight) * 2.0, X, a=linear())
    assert isinstance(exported, GraphModule)
    for rule, gm, name in ((merge, exported, "linear"), (functional_norm, exported, "layer_norm"),
                           (fold_scale, functional, "linear")):  # fmt: skip
        scan = rule.scan(gm)
        assert scan.matches == ()
        assert any(
            miss.site in (name, "mul") and "matches calls of modules only" in miss.reason for miss in scan.misses
        )
        assert all("fxopt.capture" in miss.remedy for miss in scan.misses)


def layers() -> dict[str, nn.Module]:
    return {"a": linear(), "b": linear(), "n": nn.LayerNorm(4)}


def test_what_lies_inside_is_read_by_nothing_else() -> None:
    def forward(m: Any, x: torch.Tensor) -> Any:
        h = m.a(x)
        return h * 2.0 + h

    left_alone(fold_scale, forward, "a is also read by add", a=linear())


def test_a_rule_may_allow_what_lies_inside_to_be_shared() -> None:
    @fxopt.rewrite(shared_ok=True)
    def fold(x, a: nn.Linear):
        """Replace `relu(linear(x))` with a copy."""
        yield torch.relu(a(x))
        return torch.relu(fxopt.with_tensors(a, weight=a.weight * 1)(x))

    def forward(m: Any, x: torch.Tensor) -> Any:
        h = m.a(x)
        return torch.relu(h) + h

    gm = captured(forward, X, a=linear())
    assert_close_and_reversible(fold, gm, X)
    fold(gm)
    assert [name for name, _ in gm.named_children() if name.startswith("a")] == ["a", "a_1"]


def test_modules_are_guarded_as_in_every_pass() -> None:
    class Other(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) + 1

    left_alone(fold_scale, lambda m, x: m.a(x) * 2.0 + m.a(x + 1), "a is called 2 times", a=linear())
    hooked = linear()
    hooked.register_forward_hook(lambda module, args, output: output)
    graph = torch.fx.Graph()
    x = graph.placeholder("x", torch.Tensor)
    graph.output(graph.call_function(operator.mul, (graph.call_module("a", (x,)), 2.0)))
    for module, reason in ((Other(4, 4), "Other"), (hooked, "hook")):
        (miss,) = fold_scale.scan(GraphModule({"a": module}, graph)).misses
        assert reason in miss.reason


def test_of_sizes_nothing_is_folded() -> None:
    gm = captured(lambda m, x: x.view(x.size(0) * 1, -1), X)
    assert remove_one.scan(gm).matches == ()


def test_the_result_has_the_dtype_and_shape_of_what_it_replaces() -> None:
    gm = fxopt.capture(Net(lambda m, x: (x > 0) * 1), (X,))
    (miss,) = remove_one.scan(gm).misses
    assert "torch.bool" in miss.actual or "bool" in miss.actual
    assert "int64" in miss.needed


def test_memory_written_in_place_between_the_steps_is_a_miss() -> None:
    def forward(m: Any, x: torch.Tensor) -> Any:
        y = x.clone()
        h = m.a(y)
        y.add_(1)
        return h * 2.0 + y

    left_alone(fold_scale, forward, "add_ may change clone in place", a=linear())


def test_memory_written_later_keeps_a_copy_a_copy() -> None:
    def forward(m: Any, x: torch.Tensor) -> Any:
        y = x.clone()
        kept = y * 1.0
        y.add_(1)
        return kept + y

    left_alone(remove_one, forward, "add_ may change")


@fxopt.rewrite(exactness=fxopt.Exactness.BITWISE)
def once(x, *activations: nn.ReLU):
    """Replace activations of one value with a single one."""
    yield [activation(x) for activation in activations]
    y = nn.ReLU()(x)
    return [y for _ in activations]


@fxopt.rewrite
def bias_alone(x, linear: nn.Linear):
    """Replace a linear layer without weights with its bias."""
    yield linear(x)
    require(not linear.weight.any() and x.ndim == 1, "it has weights")
    return linear.bias


@fxopt.rewrite
def zeros(x, linear: nn.Linear):
    """Replace a linear layer without weights with zeros."""
    yield linear(x)
    require(not linear.weight.any() and x.ndim == 1, "it has weights")
    return torch.zeros(linear.out_features) * 1.0


def weightless() -> nn.Linear:
    layer = linear()
    with torch.no_grad():
        layer.weight.zero_()
    return layer


def test_values_that_become_one_are_neither_written_to_nor_both_returned() -> None:
    twice = {"a": nn.ReLU(), "b": nn.ReLU()}
    gm = captured(lambda m, x: m.a(x).exp() + m.b(x), X, **twice)
    assert_close_and_reversible(once, gm, X)
    left_alone(once, lambda m, x: m.a(x).add_(1) + m.b(x), "add_ may change a in place later", **twice)
    left_alone(once, lambda m, x: m.b(x) + m.a(x).add_(1), "add_ may change a in place later", **twice)
    left_alone(once, lambda m, x: (m.a(x), m.b(x)), "a is returned, and would then be in the memory of b", **twice)
    gm = captured(lambda m, x: (m.a(x), m.b(x).exp()), X, **twice)
    assert_close_and_reversible(once, gm, X)


def test_a_value_that_becomes_a_tensor_of_the_model_is_neither_written_to_nor_returned() -> None:
    x = torch.rand(4)
    for rule, whose in ((bias_alone, "the model's own a.bias"), (zeros, "the same tensor in each call")):
        layer = weightless()
        if rule is zeros:
            layer.bias = None
        gm = captured(lambda m, x: m.a(x).exp(), x, a=layer)
        assert_close_and_reversible(rule, gm, x)
        for forward, why in (
            (lambda m, x: m.a(x).add_(1).exp(), f"add_ may change a in place later, which would then be {whose}"),
            (lambda m, x: m.a(x), f"a is returned, and would then be {whose}"),
            (lambda m, x: m.a(x).view(2, 2), f"a is returned, and would then be {whose}"),
        ):
            scan = rule.scan(captured(forward, x, a=layer))
            assert not scan.matches
            assert why in scan.misses[0].reason


def test_a_write_to_a_new_result_is_no_reason_to_miss() -> None:
    gm = captured(lambda m, x: (m.a(x) * 2.0).relu_(), X, a=linear())
    assert_close_and_reversible(fold_scale, gm, X)


def test_an_unknown_shape_is_a_miss_where_the_rule_asks_for_it() -> None:
    @fxopt.rewrite
    def rule(x):
        """Replace `cos(x)`."""
        yield torch.cos(x)
        require(x.ndim == 2 and x.shape[-1] == 5 and x.dtype.is_floating_point, "not the one")
        return torch.sin(x)

    assert len(rule.scan(captured(lambda m, x: torch.cos(m.a(x)), X, a=linear(size=5))).matches) == 1
    (miss,) = rule.scan(torch.fx.symbolic_trace(Net(lambda m, x: torch.cos(x)))).misses
    assert "the ndim of x is not known" in miss.reason
    assert "fxopt.capture" in miss.remedy


def test_a_free_size_is_no_number() -> None:
    @fxopt.rewrite
    def rule(x):
        """Replace `relu(x)`."""
        yield torch.relu(x)
        return x.relu().view(x.shape)

    (miss,) = rule.scan(captured(lambda m, x: torch.relu(x), X)).misses
    assert "is free" in miss.reason


# ---- what is put in place


def test_the_new_module_takes_the_place_of_the_one_that_goes() -> None:
    gm = captured(lambda m, x: m.a(x) * 2.0, X, a=linear())
    fold_scale(gm)
    assert list(gm.state_dict()) == ["a.weight", "a.bias"]
    assert not gm.a.training
    assert gm.a.weight.requires_grad


def test_frozen_weights_stay_frozen() -> None:
    module = linear().requires_grad_(False)
    gm = captured(lambda m, x: m.a(x) * 2.0, X, a=module)
    with torch.no_grad():
        fold_scale(gm)
    assert not any(parameter.requires_grad for parameter in gm.parameters())


def test_new_weights_train_even_when_gradients_are_off_meanwhile() -> None:
    gm = captured(lambda m, x: m.a(x) * 2.0, X, a=linear())
    with torch.no_grad():
        fold_scale(gm)
    assert all(parameter.requires_grad and parameter.is_leaf for parameter in gm.parameters())


def test_a_module_that_replaces_several_is_named_for_them() -> None:
    gm = captured(lambda m, x: m.b(m.a(x)) + 1, X, a=linear(), b=linear(False))
    join(gm)
    assert [name for name, _ in gm.named_children() if not name.startswith("_")] == ["a_b"]


def test_tensors_in_the_replacement_are_read_from_where_they_are_or_registered() -> None:
    @fxopt.rewrite
    def spelled_out(x, norm: nn.LayerNorm):
        """Replace a layer norm with its formula."""
        yield norm(x)
        centered = x - x.mean(-1, keepdim=True)
        scale = torch.ones(4) * 1.0
        return centered * torch.rsqrt(centered.square().mean(-1, keepdim=True) + norm.eps) * norm.weight * scale

    gm = captured(lambda m, x: m.n(x), X, n=nn.LayerNorm(4))
    assert_close_and_reversible(spelled_out, gm, X)
    spelled_out(gm)
    assert set(gm.state_dict()) == {"n.weight", "n.bias", "n_constant"}


def test_a_replacement_that_contains_its_pattern_ends() -> None:
    @fxopt.rewrite
    def deeper(x):
        """Replace `relu(x)` with `relu(relu(x))`."""
        yield torch.relu(x)
        return torch.relu(torch.relu(x))

    gm = captured(lambda m, x: torch.relu(torch.relu(x)), X)
    assert_close_and_reversible(deeper, gm, X, sites=2)
    deeper(gm)
    assert sum(node.target is torch.relu for node in gm.graph.nodes) == 4


def test_chains_are_taken_up_from_their_start_and_overlaps_are_said() -> None:
    gm = captured(lambda m, x: x * 2.0 * 3.0 * 4.0 * 5.0, X)
    scan = collect_factors.scan(gm)
    assert [match.site for match in scan.matches] == ["mul_1", "mul_3"]
    assert ["overlaps mul_1" in miss.actual for miss in scan.misses] == [False, True]
    collect_factors(gm)
    assert "x * 120.0" in gm.code


@pytest.mark.slow
def test_a_long_chain_is_no_problem() -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        for _ in range(1500):
            x = torch.relu(x)
        return x

    gm = torch.fx.symbolic_trace(Net(forward))
    assert len(relu_once.scan(gm).matches) == 750
    relu_once(gm)
    assert len(gm.graph.nodes) == 3


def test_siblings_are_split_where_their_input_is_written_to() -> None:
    def forward(m: Any, x: torch.Tensor) -> Any:
        y = x.clone()
        first = m.a(y) + m.b(y)
        y.add_(1)
        return first + m.c(y) + m.d(y)

    gm = captured(forward, X, **{name: linear() for name in "abcd"})
    assert [len(match.members) for match in merge.scan(gm).matches] == [2, 2]
    assert_close_and_reversible(merge, gm, X, sites=2)


def test_a_single_sibling_is_a_miss() -> None:
    left_alone(merge, lambda m, x: m.a(x), "no other linears", a=linear())


def test_siblings_may_have_a_pattern_of_their_own() -> None:
    @fxopt.rewrite
    def merge_relus(x, *linears: nn.Linear):
        """Replace relus of linears that read one input."""
        yield [torch.relu(linear(x)) for linear in linears]
        stacked = nn.Linear(4, 8)
        stacked.weight = nn.Parameter(torch.cat([linear.weight for linear in linears]))
        stacked.bias = nn.Parameter(torch.cat([linear.bias for linear in linears]))
        a, b = torch.relu(stacked(x)).chunk(2, -1)
        return a, b

    gm = captured(lambda m, x: F.relu(m.a(x)) - m.b(x).relu() + m.c(x), X, a=linear(), b=linear(), c=linear())
    assert_close_and_reversible(merge_relus, gm, X)


# ---- options, names, copies


def test_options_are_keyword_only_parameters() -> None:
    gm = captured(lambda m, x: m.a(x) + m.b(x), X, a=linear(), b=linear())
    strict = merge.with_options(most=1)
    assert len(merge.scan(gm).matches) == 1
    assert strict.scan(gm).matches == ()
    assert strict.signature != merge.signature == merge.with_options(most=8).signature
    with pytest.raises(RuleError, match=r"it has no option least; it has most"):
        merge.with_options(least=1)


def test_a_rule_is_a_pass_in_all() -> None:
    assert (fold_scale.name, fold_scale.summary[:8]) == ("fold_scale", "Replace ")
    assert fold_scale.exactness(fold_scale.scan(one_site()).matches[0]) is fxopt.Exactness.ROUNDING
    assert fold_scale.preserves_computation
    gm = one_site()
    (match,) = fold_scale.scan(gm).matches
    assert "x is x" in fold_scale.explain(match)
    assert "a (Linear(in_features=4, out_features=4, bias=True))" in fold_scale.explain(match)
    assert "c is 2.0" in fold_scale.explain(match)
    fxopt.compose(fold_scale, fxopt.MergeLinears())(gm)
    assert fold_scale.get_transformed_nodes(gm)


def one_site() -> GraphModule:
    return captured(lambda m, x: m.a(x) * 2.0, X, a=linear())


def test_a_rule_that_changes_the_result_says_so() -> None:
    @fxopt.rewrite(exactness=fxopt.Exactness.CHANGES)
    def rule(x):
        """Replace `cos(x)` with `sin(x)`."""
        yield torch.cos(x)
        return torch.sin(x)

    assert not rule.preserves_computation


def test_a_rule_travels_by_its_name() -> None:
    for rule in (fold_scale, merge.with_options(most=3)):
        assert pickle.loads(pickle.dumps(rule)).signature == rule.signature
        assert copy.deepcopy(rule) is rule


def test_a_local_rule_can_be_copied_and_says_why_it_cannot_be_pickled() -> None:
    rule = replaced(torch.relu)
    assert copy.deepcopy(rule) is rule
    assert copy.copy(rule) is rule
    with pytest.raises(pickle.PicklingError, match="define it at the top level of a module"):
        pickle.dumps(rule)


def test_it_leaves_no_trace_in_the_world() -> None:
    call = nn.Module.__call__
    state = torch.get_rng_state()

    @fxopt.rewrite
    def random(x, a: nn.Linear):
        """Replace a linear with a random one."""
        yield a(x)
        return nn.Linear(4, 4)(x)

    random(one_site())
    assert nn.Module.__call__ is call
    assert torch.equal(torch.get_rng_state(), state)


# ---- what the author of a rule is told


def error_of(rule: Callable[..., Any], gm: GraphModule | None = None) -> str:
    """What the author is told: when the rule is made, or when it runs at a site of `gm`."""
    with pytest.raises(RuleError) as raised:
        fxopt.rewrite(rule).scan(one_site() if gm is None else gm)
    assert "test_rule.py:" in str(raised.value)
    return str(raised.value)


def test_a_rule_has_one_yield_and_a_return() -> None:
    def no_yield(x):
        return x

    def early(x):
        if True:
            return x
        yield x

    def two(x, c: float):
        yield x * c
        yield x

    def nothing(x, c: float):
        yield x * c

    def itself(x, c: float):
        y = x * c
        yield y
        return y

    def number(x, c: float):
        yield x * c
        return c

    assert "it has no yield" in error_of(no_yield)
    assert "it returns before it yields" in error_of(early)
    assert "it yields twice" in error_of(two)
    assert "it returns nothing" in error_of(nothing)
    assert "it returns the pattern itself" in error_of(itself)
    assert "it returns 2.0, which is no value of the model" in error_of(number)


def test_a_pattern_is_one_value_computed_from_all_parameters() -> None:
    def only(x):
        yield x

    def unused(x, y):
        yield torch.relu(x)

    def several(x):
        yield torch.relu(x), torch.cos(x)

    def literals(x, c: float):
        yield x * (c * 2)

    def tensor(x):
        yield x + torch.ones(3)

    def weight(x, a: nn.Linear):
        yield F.linear(x, a.weight)

    def branch(x):
        if x > 0:
            yield x * 1

    def typo(x):
        yield x.transposee(0, 1)

    def in_place(x):
        yield x.add_(1)

    def flat(x, *a: nn.Linear):
        yield a[0](x)

    def loop(x):
        yield sum(part for part in x)

    assert "only the parameter x" in error_of(only)
    assert "y is not in the pattern" in error_of(unused)
    assert "the pattern is several values" in error_of(several)
    assert "computes mul from literals" in error_of(literals)
    assert "a Tensor is an argument in the pattern" in error_of(tensor)
    assert "a.weight is read in the pattern" in error_of(weight)
    assert "known when the model runs only" in error_of(branch)
    assert "no method or attribute transposee" in error_of(typo)
    assert "add_ writes in place" in error_of(in_place)
    assert "yield one value for each of *a" in error_of(flat)
    assert "x is iterated over" in error_of(loop)


def test_annotations_and_options_are_checked() -> None:
    def annotation(x, c: dict):
        yield x * c

    def unknown(x, c: "Unknown"):  # noqa: F821 - this is what is tested
        yield x * c

    def default(x, c: float = 1.0):
        yield x * c

    def option(x, *, most):
        yield x.relu()

    def taken(x, *, scan=1):
        yield x.relu()

    def keywords(x, **more):
        yield x.relu()

    def values(*x):
        yield x[0].relu()

    assert "c is annotated <class 'dict'>" in error_of(annotation)
    assert "name 'Unknown' is not defined" in error_of(unknown)
    assert "options stand behind a `*`" in error_of(default)
    assert "the option most needs a default" in error_of(option)
    assert "the option scan has the name of something" in error_of(taken)
    assert "**more cannot be matched" in error_of(keywords)
    assert "annotate it with their type" in error_of(values)
    with pytest.raises(RuleError, match="is for generator functions"):
        fxopt.rewrite(3)  # type: ignore[call-overload]


def test_errors_in_the_replacement_name_the_line() -> None:
    def unbound(x, a: nn.Linear, c: float):
        yield a(x) * c
        return a(y)  # noqa: F821 - this is what is tested

    def truth(x, a: nn.Linear, c: float):
        yield a(x) * c
        require(x.sum() > 0, "never known")
        return x

    def number(x, a: nn.Linear, c: float):
        yield a(x) * c
        return x * float(x)

    def written(x, a: nn.Linear, c: float):
        yield a(x) * c
        a.weight.data.mul_(c)
        return a(x)

    def assigned(x, a: nn.Linear, c: float):
        yield a(x) * c
        a.bias = None
        return a(x)

    def changed(x, a: nn.Linear, c: float):
        yield (a(x) * c if isinstance(c, float) else a(x) + c)
        return x

    assert "NameError in line" in error_of(unbound)
    assert "known when the model runs only" in error_of(truth)
    assert "x is taken for a number" in error_of(number)
    assert "it writes to the weight" in error_of(written)
    assert "it changes a Linear of the model" in error_of(assigned)
    gm = captured(lambda m, x: m.a(x) + 2.0, X, a=linear())
    assert "it yields another pattern" in error_of(changed, gm)


def test_a_value_prints_as_the_node_that_it_is() -> None:
    seen = []

    @fxopt.rewrite
    def rule(x, a: nn.Linear, c: float):
        """Replace `linear(x) * c`."""
        h = a(x)
        seen.append(f"{x}, {h}")
        yield h * c
        seen.append(f"{x}, {h}")
        return torch.cos(h)

    rule.scan(captured(lambda m, x: m.a(x + 1) * 2.0, X, a=linear()))
    assert seen[0] == "x, a"
    assert seen[-1] == "add, a"


def test_rules_and_captures_in_many_threads_leave_each_other_alone() -> None:
    call = nn.Module.__call__
    model = Net(lambda self, x: self.linear(x) * 3.0, linear=nn.Linear(4, 4)).eval()
    x = torch.rand(2, 4)

    def work(_: int) -> list[int]:
        sites = []
        for _ in range(4):
            gm = fxopt.capture(model, (x,))
            sites.append(len(fold_scale.scan(gm).matches))
            torch.testing.assert_close(fold_scale(gm)(x), model(x))
        return sites

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [[1] * 4] * 4
    assert nn.Module.__call__ is call
