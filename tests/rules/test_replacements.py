"""The replacement: new modules and tensors, chains, siblings."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fxopt
from tests.passes.asserts import Net, assert_close_and_reversible, captured
from tests.rules.rules import X, collect_factors, fold_scale, join, left_alone, linear, merge, relu_once


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
