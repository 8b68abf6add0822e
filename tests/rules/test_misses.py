"""Near misses of a rule tell the fact and the fact needed."""

import operator
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.fx import GraphModule

import fxopt
from fxopt import require
from tests.passes.asserts import Net, assert_close_and_reversible, captured
from tests.rules.rules import X, fold_scale, functional_norm, left_alone, linear, merge, remove_one, use_silu


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
    assert "the ndim of x is unknown" in miss.reason
    assert "fxopt.capture" in miss.remedy


def test_a_free_size_is_no_number() -> None:
    @fxopt.rewrite
    def rule(x):
        """Replace `relu(x)`."""
        yield torch.relu(x)
        return x.relu().view(x.shape)

    (miss,) = rule.scan(captured(lambda m, x: torch.relu(x), X)).misses
    assert "is free" in miss.reason
