from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import fxopt
from fxopt import FuseBatchNorm2dInConv2d
from tests.examples import outputs
from tests.passes.asserts import assert_close_and_reversible, assert_left_alone, captured, traced

PATTERNS = (
    [("conv", 1, 0), ("norm", 0, 0)],
    [("conv", 1, 0), ("layer", 0, 1), ("norm", 0, 0)],
    [("conv", 1, 0), ("ask", 0, 0), ("norm", 0, 0)],
)

X = torch.linspace(-3, 5, 2 * 4 * 7 * 7).reshape(2, 4, 7, 7).sin()


def norm(channels: int, affine: bool = True, **options: Any) -> nn.BatchNorm2d:
    bn = nn.BatchNorm2d(channels, affine=affine, **options)
    if bn.running_mean is not None and bn.running_var is not None:
        bn.running_mean.copy_(torch.linspace(-0.5, 0.7, channels))
        bn.running_var.copy_(torch.linspace(0.4, 1.7, channels))
    if affine:
        nn.init.constant_(bn.bias, 0.3)
        bn.weight.data.copy_(torch.linspace(0.6, 1.4, channels))
    return bn.eval()


def then(m: Any, x: torch.Tensor) -> Any:
    return m.bn(m.conv(x))


@given(
    bias=st.booleans(),
    affine=st.booleans(),
    groups=st.sampled_from([1, 2, 4]),
    dilation=st.sampled_from([1, 2]),
    stride=st.sampled_from([1, 2]),
    mode=st.sampled_from(["zeros", "reflect", "replicate", "circular"]),
    padding=st.sampled_from([0, 1, 2]),
)
def test_every_kind_of_convolution_is_folded(
    bias: bool, affine: bool, groups: int, dilation: int, stride: int, mode: str, padding: int
) -> None:
    conv = nn.Conv2d(4, 8, 3, stride, padding, dilation=dilation, groups=groups, bias=bias, padding_mode=mode)
    gm = traced(then, X, conv=conv, bn=norm(8, affine))
    assert_close_and_reversible(FuseBatchNorm2dInConv2d(), gm, X)
    FuseBatchNorm2dInConv2d()(gm)
    assert "bn" not in dict(gm.named_children())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_half_types_are_folded_in_float32(dtype: torch.dtype) -> None:
    conv, bn = nn.Conv2d(4, 8, 3).to(dtype), norm(8).to(dtype)
    gm = captured(then, X.to(dtype), conv=conv, bn=bn)
    exact = outputs(captured(then, X.double(), conv=nn.Conv2d(4, 8, 3).double(), bn=norm(8).double()), (X.double(),))
    gm64 = captured(then, X.to(dtype).double(), conv=_double(conv), bn=_double(bn))
    exact = outputs(gm64, (X.to(dtype).double(),))
    old = (outputs(gm, (X.to(dtype),))[0].double() - exact[0]).abs().max()
    FuseBatchNorm2dInConv2d()(gm)
    new = (outputs(gm, (X.to(dtype),))[0].double() - exact[0]).abs().max()
    assert new <= 4 * old + 32 * torch.finfo(dtype).eps


def _double(module: nn.Module) -> Any:
    import copy

    return copy.deepcopy(module).double()


def test_training_mode_is_left_alone() -> None:
    gm = captured(then, X, conv=nn.Conv2d(4, 8, 3), bn=norm(8))
    gm.get_submodule("bn").train()
    assert_left_alone(FuseBatchNorm2dInConv2d(), gm, "bn is in training mode", "model.eval()")


def test_missing_running_statistics_are_left_alone() -> None:
    gm = captured(then, X, conv=nn.Conv2d(4, 8, 3), bn=norm(8, track_running_stats=False))
    assert_left_alone(FuseBatchNorm2dInConv2d(), gm, "bn takes the statistics of each batch")


def test_a_convolution_that_others_read_is_left_alone() -> None:
    def forward(m: Any, x: torch.Tensor) -> Any:
        y = m.conv(x)
        return m.bn(y) + torch.relu(y)

    gm = captured(forward, X, conv=nn.Conv2d(4, 8, 3), bn=norm(8))
    assert_left_alone(FuseBatchNorm2dInConv2d(), gm, "conv has other users (relu)", "before normalization")


@pytest.mark.parametrize(
    "forward",
    [
        lambda m, x: m.bn(m.conv(x)) + m.conv(x * 2),
        lambda m, x: m.bn(m.conv(x)) + m.other(m.conv(x * 2)),
        lambda m, x: m.bn(m.conv(m.bn(m.conv(x)))),
    ],
    ids=["called twice", "two batch norms", "in a loop"],
)
def test_shared_convolutions_are_left_alone(forward: Any) -> None:
    gm = captured(forward, X, conv=nn.Conv2d(4, 4, 1), bn=norm(4), other=norm(4))
    assert_left_alone(FuseBatchNorm2dInConv2d(), gm, "is called 2 times")


def test_a_batch_norm_called_twice_is_left_alone() -> None:
    gm = captured(
        lambda m, x: m.bn(m.conv(x)) + m.bn(m.second(x)),
        X,
        conv=nn.Conv2d(4, 8, 1),
        second=nn.Conv2d(4, 8, 1),
        bn=norm(8),
    )
    assert_left_alone(FuseBatchNorm2dInConv2d(), gm, "bn is called 2 times")


def test_a_tied_weight_is_left_alone() -> None:
    conv, second = nn.Conv2d(4, 8, 1), nn.Conv2d(4, 8, 1)
    second.weight = conv.weight
    gm = captured(lambda m, x: m.bn(m.conv(x)) + m.second(x), X, conv=conv, second=second, bn=norm(8))
    assert_left_alone(FuseBatchNorm2dInConv2d(), gm, "conv.weight is tied to second.weight")


def test_a_weight_read_elsewhere_is_left_alone() -> None:
    gm = captured(lambda m, x: m.bn(m.conv(x)) * m.conv.weight.mean(), X, conv=nn.Conv2d(4, 8, 1), bn=norm(8))
    assert_left_alone(FuseBatchNorm2dInConv2d(), gm, "reads conv.weight")


def test_a_batch_norm_behind_something_else_says_what() -> None:
    gm = captured(lambda m, x: m.bn(torch.relu(m.conv(x))), X, conv=nn.Conv2d(4, 8, 1), bn=norm(8))
    assert_left_alone(FuseBatchNorm2dInConv2d(), gm, "its input relu is", "not a Conv2d")


def test_mixed_dtypes_are_left_alone() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_module("bn", (graph.call_module("conv", (x,)),)))
    gm = torch.fx.GraphModule({"conv": nn.Conv2d(4, 8, 1).half(), "bn": norm(8)}, graph)
    assert_left_alone(FuseBatchNorm2dInConv2d(), gm, "conv is torch.float16", "bn is torch.float32")


def test_a_scale_that_is_not_finite_is_left_alone() -> None:
    bn = norm(8, eps=0.0)
    assert bn.running_var is not None
    bn.running_var.zero_()
    gm = captured(then, X, conv=nn.Conv2d(4, 8, 1), bn=bn)
    assert_left_alone(FuseBatchNorm2dInConv2d(), gm, "not a finite")


def test_two_batch_norms_in_a_row_are_both_folded() -> None:
    gm = captured(lambda m, x: m.two(m.one(m.conv(x))), X, conv=nn.Conv2d(4, 8, 1), one=norm(8), two=norm(8))
    before, old = fxopt.fingerprint(gm), outputs(gm, (X,))
    FuseBatchNorm2dInConv2d()(gm)
    assert [node.op for node in gm.graph.nodes] == ["placeholder", "call_module", "output"]
    torch.testing.assert_close(outputs(gm, (X,)), old, rtol=1e-5, atol=1e-5)
    FuseBatchNorm2dInConv2d()(gm, reverse=True)
    assert fxopt.fingerprint(gm) == before


def test_the_eager_model_still_gives_its_own_answers() -> None:
    model = nn.Sequential(nn.Conv2d(4, 8, 3), norm(8)).eval()
    expected = model(X)
    gm = fxopt.capture(model, (X,))
    FuseBatchNorm2dInConv2d()(gm)
    assert torch.equal(model(X), expected)


def test_whether_weights_train_is_kept() -> None:
    conv = nn.Conv2d(4, 8, 1, bias=False).requires_grad_(False)
    gm = captured(then, X, conv=conv, bn=norm(8))
    FuseBatchNorm2dInConv2d()(gm)
    fused = gm.get_submodule("conv")
    assert isinstance(fused, nn.Conv2d)
    assert fused.bias is not None
    assert (fused.weight.requires_grad, fused.bias.requires_grad) == (False, True)


def test_the_layer_is_rewritten_though_the_norm_reads_it_and_what_the_layer_reads_is_not() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)).eval()
    [match] = FuseBatchNorm2dInConv2d().scan(torch.fx.symbolic_trace(model)).matches
    assert [node.target for node in match.rewritten] == ["1", "0"]
