from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fxopt import FuseBatchNorm1dInLinear
from tests.passes.asserts import assert_close_and_reversible, assert_left_alone, captured, traced

PATTERNS = (
    [("linear", 1, 0), ("norm", 0, 0)],
    [("norm", 1, 0), ("linear", 0, 0)],
    [("norm", 1, 0), ("linear", 0, 0), ("norm", 0, 0), ("linear", 0, 0)],
    [("norm", 1, 0), ("write", 2, 0), ("linear", 1, 0)],
    [("linear", 1, 0), ("ask", 0, 0), ("norm", 0, 0)],
    [("norm", 1, 0), ("ask", 0, 0), ("linear", 0, 0)],
    [("linear", 1, 0), ("norm", 0, 0), ("again", 2, 0)],
)

X = torch.linspace(-3, 5, 24).reshape(6, 4).sin()


def norm(features: int, affine: bool = True, **options: Any) -> nn.BatchNorm1d:
    bn = nn.BatchNorm1d(features, affine=affine, **options)
    if bn.running_mean is not None and bn.running_var is not None:
        bn.running_mean.copy_(torch.linspace(-0.5, 0.7, features))
        bn.running_var.copy_(torch.linspace(0.4, 1.7, features))
    if affine:
        nn.init.constant_(bn.bias, 0.3)
        bn.weight.data.copy_(torch.linspace(0.6, 1.4, features))
    return bn.eval()


def after(m: Any, x: torch.Tensor) -> Any:
    return m.bn(m.linear(x))


def before(m: Any, x: torch.Tensor) -> Any:
    return m.linear(m.bn(x))


@given(bias=st.booleans(), affine=st.booleans(), out=st.integers(1, 9))
def test_batch_norm_after_a_linear_is_folded(bias: bool, affine: bool, out: int) -> None:
    gm = traced(after, X, linear=nn.Linear(4, out, bias=bias), bn=norm(out, affine))
    assert_close_and_reversible(FuseBatchNorm1dInLinear(), gm, X)


@given(bias=st.booleans(), affine=st.booleans(), out=st.integers(1, 9))
def test_batch_norm_before_a_linear_is_folded(bias: bool, affine: bool, out: int) -> None:
    gm = traced(before, X, linear=nn.Linear(4, out, bias=bias), bn=norm(4, affine))
    assert_close_and_reversible(FuseBatchNorm1dInLinear(), gm, X)


def test_between_two_linears_it_is_folded_once() -> None:
    gm = captured(lambda m, x: m.two(m.bn(m.one(x))), X, one=nn.Linear(4, 5), two=nn.Linear(5, 3), bn=norm(5))
    (match,) = FuseBatchNorm1dInLinear().scan(gm).matches
    assert match.layer_first
    assert_close_and_reversible(FuseBatchNorm1dInLinear(), gm, X)


def test_where_the_first_linear_is_shared_the_second_takes_it() -> None:
    gm = captured(
        lambda m, x: m.two(m.bn(m.one(x))) + m.one(x * 2).sum(), X, one=nn.Linear(4, 5), two=nn.Linear(5, 3), bn=norm(5)
    )
    (match,) = FuseBatchNorm1dInLinear().scan(gm).matches
    assert not match.layer_first
    assert_close_and_reversible(FuseBatchNorm1dInLinear(), gm, X)


@pytest.mark.parametrize("forward", [after, before])
def test_three_dimensions_are_left_alone_even_where_the_sizes_agree(forward: Any) -> None:
    x = torch.rand(2, 4, 4)
    gm = captured(forward, x, linear=nn.Linear(4, 4), bn=norm(4))
    assert_left_alone(FuseBatchNorm1dInLinear(), gm, "batch norm scales dimension 1")


@pytest.mark.parametrize("forward", [after, before])
def test_an_unknown_shape_is_left_alone(forward: Any) -> None:
    gm = captured(forward, X, linear=nn.Linear(4, 4), bn=norm(4))
    for node in gm.graph.nodes:
        node.meta.clear()
    assert_left_alone(FuseBatchNorm1dInLinear(), gm, "is unknown", "fxopt.capture")


def test_training_mode_is_left_alone() -> None:
    gm = captured(after, X, linear=nn.Linear(4, 4), bn=norm(4))
    gm.get_submodule("bn").train()
    assert_left_alone(FuseBatchNorm1dInLinear(), gm, "training mode", "model.eval()")


def test_missing_statistics_are_left_alone() -> None:
    gm = captured(after, X, linear=nn.Linear(4, 4), bn=norm(4, track_running_stats=False))
    assert_left_alone(FuseBatchNorm1dInLinear(), gm, "takes the statistics of each batch")


def test_other_users_are_left_alone() -> None:
    def forward(m: Any, x: torch.Tensor) -> Any:
        y = m.linear(x)
        return m.bn(y) + y

    gm = captured(forward, X, linear=nn.Linear(4, 4), bn=norm(4))
    assert_left_alone(FuseBatchNorm1dInLinear(), gm, "linear has other users (add)")


def test_two_readers_of_the_normalized_tensor_are_left_alone() -> None:
    def forward(m: Any, x: torch.Tensor) -> Any:
        y = m.bn(x)
        return m.linear(y) + m.other(y)

    gm = captured(forward, X, linear=nn.Linear(4, 4), other=nn.Linear(4, 4), bn=norm(4))
    assert_left_alone(FuseBatchNorm1dInLinear(), gm, "bn has other users (other)")


def test_neither_neighbor_a_linear_is_said() -> None:
    gm = captured(lambda m, x: torch.tanh(m.bn(torch.tanh(x))), X, bn=norm(4))
    assert_left_alone(FuseBatchNorm1dInLinear(), gm, "neither its input tanh nor a user is a Linear")


def test_an_input_changed_before_the_linear_reads_it_is_left_alone() -> None:
    def forward(m: Any, x: torch.Tensor) -> Any:
        x = x * 1
        y = m.bn(x)
        x.add_(1)
        return m.linear(y)

    gm = captured(forward, X, linear=nn.Linear(4, 4), bn=norm(4))
    assert_left_alone(FuseBatchNorm1dInLinear(), gm, "changes mul in place between bn and linear")


def test_mixed_dtypes_are_left_alone() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.empty(2, 4, dtype=torch.float16)
    y = graph.call_module("linear", (x,))
    y.meta["val"] = torch.empty(2, 4, dtype=torch.float16)
    graph.output(graph.call_module("bn", (y,)))
    gm = torch.fx.GraphModule({"linear": nn.Linear(4, 4).half(), "bn": norm(4)}, graph)
    assert_left_alone(FuseBatchNorm1dInLinear(), gm, "linear is torch.float16", "bn is torch.float32")


def test_a_shared_batch_norm_is_left_alone() -> None:
    gm = captured(lambda m, x: m.bn(m.one(x)) + m.bn(m.two(x)), X, one=nn.Linear(4, 4), two=nn.Linear(4, 4), bn=norm(4))
    assert_left_alone(FuseBatchNorm1dInLinear(), gm, "bn is called 2 times")
