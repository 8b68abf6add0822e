import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import parametrizations, prune

import fxopt
from fxopt import MergeLinears
from tests.examples import outputs
from tests.passes.asserts import assert_close_and_reversible, assert_left_alone, captured, traced

PATTERNS = (
    [("linear", 0, 0), ("linear", 1, 0)],
    [("linear", 0, 0), ("linear", 1, 0), ("linear", 2, 0)],
    [("linear", 0, 0), ("write", 1, 0), ("linear", 2, 0)],
    [("attention", 0, 0)],
)

X = torch.linspace(-3, 5, 24).reshape(2, 3, 4)


def both(m: Any, x: torch.Tensor) -> Any:
    return m.a(x) * 2, m.b(x) * 3


def linear(out: int = 5, bias: bool = True, **options: Any) -> nn.Linear:
    return nn.Linear(4, out, bias=bias, **options)


@given(sizes=st.lists(st.integers(1, 6), min_size=2, max_size=4), bias=st.booleans())
def test_linears_of_unequal_sizes_become_one(sizes: list[int], bias: bool) -> None:
    layers = {f"l{i}": linear(size, bias) for i, size in enumerate(sizes)}
    gm = traced(lambda m, x: [getattr(m, name)(x) * 2 for name in layers], X, **layers)
    assert_close_and_reversible(MergeLinears(), gm, X)


def test_no_bias_is_invented() -> None:
    gm = captured(both, X, a=linear(bias=False), b=linear(bias=False))
    MergeLinears()(gm)
    assert gm.get_submodule("a_b_merged").bias is None
    MergeLinears()(gm, reverse=True)
    assert list(gm.state_dict()) == ["a.weight", "b.weight"]


def test_linears_with_and_without_a_bias_are_merged_apart() -> None:
    layers = {"a": linear(), "b": linear(bias=False), "c": linear(), "d": linear(bias=False)}
    gm = captured(lambda m, x: (m.a(x) * 1, m.b(x) * 1, m.c(x) * 1, m.d(x) * 1), X, **layers)
    assert [match.site for match in MergeLinears().scan(gm).matches] == ["a", "b"]
    assert_close_and_reversible(MergeLinears(), gm, X, sites=2)


@pytest.mark.parametrize(
    ("a", "b", "parts"),
    [
        (lambda: linear(), lambda: linear(bias=False), ["has a bias is True here, False there"]),
        (lambda: linear(), lambda: linear().requires_grad_(False), ["trains its weight is True here, False there"]),
        (
            lambda: linear(),
            lambda: prune.l1_unstructured(linear(), "weight", 1),
            ["b has a forward pre hook", "pruning"],
        ),
        (lambda: linear(), lambda: parametrizations.weight_norm(linear()), ["parametrization", "remove_param"]),
        (lambda: linear(), lambda: with_hook(linear()), ["b has a forward hook (function)", "remove the hook"]),
        (
            lambda: linear(),
            lambda: heard(linear()),
            ["b.weight has a gradient hook (register_hook)", "remove the hook"],
        ),
        (lambda: linear(), lambda: Lora(4, 5), ["b is a Lora, a subclass of Linear"]),
        (lambda: linear(), lambda: with_forward(linear()), ["b has a forward method of its own"]),
        (lambda: linear(), lambda: with_mixed_dtypes(linear()), ["the tensors of b differ in dtype"]),
    ],
)
def test_layers_that_are_not_alike_are_left_alone(
    a: Callable[..., Any], b: Callable[..., Any], parts: list[str]
) -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_module("a", (x,)), graph.call_module("b", (x,))))
    gm = torch.fx.GraphModule({"a": a(), "b": b()}, graph)
    assert_left_alone(MergeLinears(), gm, *parts)


class Lora(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + 1


def with_hook(layer: nn.Linear) -> nn.Linear:
    layer.register_forward_hook(lambda module, args, output: output + 1)
    return layer


def heard(layer: nn.Linear) -> nn.Linear:
    layer.weight.register_hook(lambda gradient: gradient * 2)
    return layer


def with_forward(layer: nn.Linear) -> nn.Linear:
    layer.forward = lambda x: x  # type: ignore[method-assign]
    return layer


def with_mixed_dtypes(layer: nn.Linear) -> nn.Linear:
    layer.bias = nn.Parameter(layer.bias.double())
    return layer


def test_a_linear_applied_twice_is_left_alone() -> None:
    one = linear(4)
    gm = captured(lambda m, x: m.a(x) + m.a(x) + m.b(x), X, a=one, b=linear(4))
    assert_left_alone(MergeLinears(), gm, "a is called 2 times", "a_1")


def test_a_linear_applied_to_another_input_too_is_left_alone() -> None:
    gm = captured(lambda m, x: m.a(x) + m.b(x) + m.a(x * 2), X, a=linear(4), b=linear(4))
    assert_left_alone(MergeLinears(), gm, "a is called 2 times")


def test_a_linear_under_two_names_is_left_alone() -> None:
    one = linear(4)
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_module("a", (x,)), graph.call_module("b", (x,))))
    gm = torch.fx.GraphModule({"a": one, "b": one}, graph)
    assert_left_alone(MergeLinears(), gm, "2 times")


def test_tied_weights_are_left_alone() -> None:
    tied = linear(5)
    other = linear(5)
    other.weight = tied.weight
    gm = captured(both, X, a=tied, b=other)
    assert_left_alone(MergeLinears(), gm, "a.weight is tied to b.weight")


def test_a_weight_that_is_read_elsewhere_is_left_alone() -> None:
    gm = captured(lambda m, x: m.a(x) + m.b(x) + m.a.weight.sum(), X, a=linear(4), b=linear(4))
    assert_left_alone(MergeLinears(), gm, "reads a.weight, which is in a")


def test_an_input_changed_in_place_between_the_calls_keeps_them_apart() -> None:
    def forward(m: Any, x: torch.Tensor) -> Any:
        x = x * 1
        first = m.a(x)
        x.view(-1).add_(1)  # through a view
        return first + m.b(x)

    gm = captured(forward, X, a=linear(4), b=linear(4))
    assert_left_alone(MergeLinears(), gm, "changes mul in place between a and b")


def test_an_in_place_change_of_other_memory_does_not_matter() -> None:
    def forward(m: Any, x: torch.Tensor) -> Any:
        first = m.a(x)
        first.mul_(2)
        return first + m.b(x)

    assert_close_and_reversible(MergeLinears(), captured(forward, X, a=linear(4), b=linear(4)), X)


@pytest.mark.parametrize(
    "forward",
    [
        lambda m, x: (m.a(x).view(-1), m.b(x).view(-1)),
        lambda m, x: (m.a(x).transpose(1, 2).transpose(1, 2).view(-1), m.b(x).as_strided((2, 2), (1, 2))),
        lambda m, x: (m.a(x).flatten(), m.b(x).unsqueeze(0).view(-1, 1)),
        lambda m, x: (m.a(x).view(2, 3, 5, 1).transpose(1, 2), m.b(x).view(2, 3, 1, 5).permute(2, 0, 1, 3)),
        lambda m, x: (m.a(x).view(6, 5), m.b(x).add_(1)),
    ],
)
def test_views_of_what_becomes_a_slice_still_work(forward: Callable[..., Any]) -> None:
    gm = captured(forward, X, a=linear(), b=linear())
    assert_close_and_reversible(MergeLinears(), gm, X)


def test_a_view_that_splits_the_last_dimension_needs_no_copy() -> None:
    gm = captured(
        lambda m, x: m.a(x).view(2, 3, 2, 2).sum() + m.b(x).view(2, 3, 2, 2).sum(), X, a=linear(4), b=linear(4)
    )
    MergeLinears()(gm)
    assert not [node for node in gm.graph.nodes if node.target == "contiguous"]


@pytest.mark.parametrize(
    ("sizes", "copies"),
    [((2, -1, 2, 2), 0), (([2, 3, 4],), 0), ((-1,), 2), ((2, 6, 2), 2), ((2, 3, 2, -1), 2), ((3, -1, 4), 0)],
)
def test_without_metadata_the_sizes_a_view_asks_for_tell_whether_it_needs_a_copy(sizes: Any, copies: int) -> None:
    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = linear(4), linear(4)

        def forward(self, x: torch.Tensor) -> Any:
            return self.a(x).view(*sizes).sum(-1), self.b(x).view(*sizes).sum(-1)

    gm = torch.fx.symbolic_trace(Heads())
    assert_close_and_reversible(MergeLinears(), gm, X)
    MergeLinears()(gm)
    assert [node.target for node in gm.graph.nodes].count("contiguous") == copies


def test_an_output_stays_contiguous() -> None:
    gm = captured(lambda m, x: (m.a(x), m.b(x)), X, a=linear(), b=linear())
    MergeLinears()(gm)
    assert all(out.is_contiguous() for out in outputs(gm, (X,)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_dtypes(dtype: torch.dtype) -> None:
    gm = captured(both, X.to(dtype), a=linear(dtype=dtype), b=linear(1, dtype=dtype))
    assert_close_and_reversible(MergeLinears(), gm, X.to(dtype))


def test_keyword_calls_are_merged() -> None:
    gm = captured(lambda m, x: m.a(input=x) + m.b(input=x), X, a=linear(), b=linear())
    assert_close_and_reversible(MergeLinears(), gm, X)


def test_unrelated_leaf_modules_with_odd_calls_do_no_harm() -> None:
    class Odd(nn.Module):
        def forward(self, xs: Any = None, *, scale: float = 1.0) -> Any:
            return torch.ones(1) if xs is None else xs[0] * scale

    gm = torch.fx.Graph()
    x = gm.placeholder("x")
    made = [gm.call_module("odd", ([x],)), gm.call_module("odd", (), {"scale": 2.0}), gm.call_module("odd", ())]
    gm.output((*made, gm.call_module("a", (x,)), gm.call_module("b", (x,))))
    module = torch.fx.GraphModule({"odd": Odd(), "a": linear(), "b": linear()}, gm)
    for pass_ in [kind() for kind in fxopt.ALL_PASSES]:
        pass_(module)
    assert "a_b_merged" in dict(module.named_children())


def test_new_nodes_have_shapes_for_the_passes_that_come_after() -> None:
    gm = captured(both, X, a=linear(), b=linear(7))
    MergeLinears()(gm)
    (merged,) = (node for node in gm.graph.nodes if node.name == "a_b_merged")
    assert merged.meta["tensor_info"].shape[-1] == 12
    assert merged.meta["origin"].nodes == ("a", "b")


def test_after_dead_code_elimination_names_keep_their_weights() -> None:
    gm = captured(lambda m, x: (m.a(x) * 2, m.b(x) * 3, m.c(x) * 4), X, a=linear(), b=linear(), c=linear())
    weights = {name: copy.deepcopy(t) for name, t in gm.state_dict().items()}
    MergeLinears()(gm)
    (output,) = (node for node in gm.graph.nodes if node.op == "output")
    names = {node.name: node for node in gm.graph.nodes}
    dropped = names["mul"]
    output.args = ((names["mul_1"], names["mul_2"]),)
    gm.graph.erase_node(dropped)
    gm.graph.erase_node(names["a"])
    gm.recompile()
    MergeLinears()(gm, reverse=True)
    for name in ("b.weight", "b.bias", "c.weight", "c.bias"):
        assert torch.equal(gm.state_dict()[name], weights[name])
    out = outputs(gm, (X,))
    assert torch.equal(out[0], gm.b(X) * 3)
    assert torch.equal(out[1], gm.c(X) * 4)


def test_training_the_merged_weights_is_not_thrown_away_by_the_way_back() -> None:
    gm = captured(both, X, a=linear(), b=linear())
    MergeLinears()(gm)
    with torch.no_grad():
        gm.get_submodule("a_b_merged").weight.add_(1)
    with pytest.raises(fxopt.RewriteError, match=r"a_b_merged.weight, made by MergeLinears, was given other values"):
        MergeLinears()(gm, reverse=True)
    assert "a_b_merged" in dict(gm.named_children())


def test_the_way_back_follows_a_model_to_another_dtype() -> None:
    gm = captured(both, X, a=linear(), b=linear())
    pristine = fxopt.core.shared_copy(gm)
    MergeLinears()(gm)
    gm.half()
    MergeLinears()(gm, reverse=True)
    assert gm.a.weight.dtype is torch.float16
    assert torch.equal(gm.a.weight, pristine.a.weight.half())


def test_a_graph_traced_again_refuses_to_reverse() -> None:
    gm = captured(both, X, a=linear(), b=linear())
    MergeLinears()(gm)
    with pytest.raises(fxopt.RewriteError, match="lost the way back"):
        MergeLinears()(torch.fx.symbolic_trace(gm), reverse=True)


def test_linears_inside_and_outside_of_autocast_are_left_apart() -> None:
    def forward(self: nn.Module, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            half = self.a(x)
        return half.float() + self.b(x) + self.c(x)

    model = type("Mixed", (nn.Module,), {"forward": forward})()
    model.a, model.b, model.c = linear(), linear(), linear()
    gm = fxopt.capture(model.eval(), (X,))
    before = gm(X)
    misses = {miss.site: miss for miss in MergeLinears().scan(gm).misses}
    assert "runs under autocast (cpu, torch.bfloat16" in misses["a"].reason
    assert "b_c_merged" in dict(MergeLinears()(gm).named_children())
    torch.testing.assert_close(gm(X), before)
