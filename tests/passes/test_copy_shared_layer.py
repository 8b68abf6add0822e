"""A shared layer is copied for a call behind which a batch norm can be folded, and nowhere else."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx import GraphModule

import fxopt
from fxopt import CopySharedLayer, FoldBatchNorm, FuseBatchNorm1dInLinear, FuseBatchNorm2dInConv2d
from fxopt.core import GraphIndex
from fxopt.testing import check_pass
from tests.examples import Example, outputs
from tests.passes.asserts import assert_left_alone, captured

X = torch.linspace(-2, 3, 2 * 4 * 5 * 5).reshape(2, 4, 5, 5)


class Head(nn.Module):
    """The head of a detector: one convolution for maps of two sizes, and a batch norm for each."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.norms = nn.ModuleList(nn.BatchNorm2d(4) for _ in range(2))
        self.pool = nn.MaxPool2d(2)
        with torch.no_grad():
            for norm in self.norms:
                norm.running_mean.uniform_(-1, 1)
                norm.running_var.uniform_(0.5, 2)
                norm.weight.uniform_(0.5, 2)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [norm(self.conv(y)).relu() for norm, y in zip(self.norms, (x, self.pool(x)))]


EXAMPLES = (Example("head", Head, ((2, 4, 6, 6),)),)


PATTERNS = (
    [("conv", 0, 0), ("again", 0, 0), ("norm", 0, 0)],
    [("linear", 0, 0), ("norm", 0, 0), ("again", 1, 0)],
    [("conv", 0, 0), ("norm", 0, 0), ("again", 0, 0), ("norm", 0, 0), ("read", 0, 0)],
)


def tuned(norm: Any) -> Any:
    with torch.no_grad():
        norm.running_mean.uniform_(-1, 1)
        norm.running_var.uniform_(0.5, 2)
    return norm


def conv_and_norm(forward: Callable[..., Any], **more: Any) -> GraphModule:
    layers = {"conv": nn.Conv2d(4, 4, 3, padding=1), "norm": tuned(nn.BatchNorm2d(4)), **more}
    return captured(forward, X, **layers)


def names(gm: GraphModule) -> list[str]:
    return [node.name for node in gm.graph.nodes]


def test_a_copy_for_the_call_before_the_norm_can_be_folded_and_the_other_call_stays() -> None:
    gm = conv_and_norm(lambda m, x: m.norm(m.conv(x)) + m.conv(x.relu()))
    before = outputs(gm, (X,))
    assert not FuseBatchNorm2dInConv2d().scan(gm).matches
    [match] = CopySharedLayer().scan(gm).matches
    assert (match.site, match.bytes) == ("conv", 4 * (4 * 4 * 9 + 4))
    CopySharedLayer()(gm)
    assert all(map(torch.equal, outputs(gm, (X,)), before))
    assert [*gm.state_dict()][-2:] == ["conv_copy.weight", "conv_copy.bias"]
    assert gm.conv_copy.weight.data_ptr() != gm.conv.weight.data_ptr()
    FuseBatchNorm2dInConv2d()(gm)
    assert names(gm) == ["x", "conv", "relu", "conv_1", "add", "output"]
    torch.testing.assert_close(outputs(gm, (X,)), before, rtol=1e-5, atol=1e-5)
    fxopt.FuseBatchNorm2dInConv2d()(gm, reverse=True)
    CopySharedLayer()(gm, reverse=True)
    assert all(map(torch.equal, outputs(gm, (X,)), before))
    assert "conv_copy.weight" not in gm.state_dict()


def test_where_a_norm_stands_behind_each_call_the_first_keeps_the_layer() -> None:
    gm = fxopt.capture(Head().eval(), (X,))
    scan = CopySharedLayer().scan(gm)
    assert [match.site for match in scan.matches] == ["conv_1"]
    assert ["conv keeps conv: each of its other calls gets a copy" in miss.reason for miss in scan.misses] == [True]
    FuseBatchNorm2dInConv2d()(CopySharedLayer()(gm))
    assert not gm.graph.find_nodes(op="call_module", target="norms.0")
    assert len([node for node in names(gm) if node.startswith("conv")]) == 2


def test_each_copy_has_tensors_of_its_own() -> None:
    gm = conv_and_norm(
        lambda m, x: m.norm(m.conv(x)) + m.norm2(m.conv(x.relu())) + m.conv(x.sin()), norm2=tuned(nn.BatchNorm2d(4))
    )
    before = outputs(gm, (X,))
    CopySharedLayer()(gm)
    copies = [gm.conv_copy.weight, gm.conv_copy_1.weight]
    assert len({one.data_ptr() for one in (*copies, gm.conv.weight)}) == 3
    FuseBatchNorm2dInConv2d()(gm)
    assert not [node for node in names(gm) if "norm" in node]
    torch.testing.assert_close(outputs(gm, (X,)), before, rtol=1e-5, atol=1e-5)


def test_a_linear_layer_is_copied_for_a_batch_of_features() -> None:
    x = torch.rand(3, 4)
    layers = {"linear": nn.Linear(4, 4, bias=False), "norm": tuned(nn.BatchNorm1d(4))}
    gm = captured(lambda m, x: m.linear(m.norm(m.linear(x))), x, **layers)
    before = outputs(gm, (x,))
    assert all(map(torch.equal, outputs(CopySharedLayer()(gm), (x,)), before))
    assert len(FuseBatchNorm1dInLinear().scan(gm).matches) == 1
    layers = {"linear": nn.Linear(5, 5), "norm": tuned(nn.BatchNorm1d(5))}
    gm = captured(lambda m, x: m.linear(m.norm(m.linear(x))), torch.rand(3, 5, 5), **layers)
    assert_left_alone(CopySharedLayer(), gm, "batch norm scales the channels of linear only of 2 dimensions")


def test_a_function_of_exported_tensors_gets_copies_of_those_that_are_shared() -> None:
    gm = torch.export.export(Head().eval(), (X,)).module()
    before = outputs(gm, (X,))
    [match] = CopySharedLayer().scan(gm).matches
    assert match.bytes == 4 * (4 * 4 * 9 + 4)
    CopySharedLayer()(gm)
    assert all(map(torch.equal, outputs(gm, (X,)), before))
    assert len(FoldBatchNorm().scan(gm).matches) == 2
    torch.testing.assert_close(outputs(FoldBatchNorm()(gm), (X,)), before, rtol=1e-5, atol=1e-5)
    FoldBatchNorm()(gm, reverse=True)
    CopySharedLayer()(gm, reverse=True)
    assert all(map(torch.equal, outputs(gm, (X,)), before))


def hooked(conv: nn.Module) -> nn.Module:
    conv.register_forward_hook(lambda module, args, y: None)
    return conv


def watched(conv: Any) -> Any:
    conv.weight.register_hook(lambda gradient: gradient * 2)
    return conv


def buffered(conv: Any) -> Any:
    conv.register_buffer("seen", torch.zeros(1))
    return conv


def strided(conv: Any) -> Any:
    conv.weight = nn.Parameter(torch.rand(4, 4, 3, 6)[..., ::2])
    return conv


CONVS: dict[str, tuple[Callable[[], Any], str]] = {
    "a parametrization": (
        lambda: torch.nn.utils.parametrizations.weight_norm(nn.Conv2d(4, 4, 3, padding=1)),
        "by a parametrization",
    ),
    "a hook": (lambda: hooked(nn.Conv2d(4, 4, 3, padding=1)), "has a forward hook"),
    "a gradient hook": (lambda: watched(nn.Conv2d(4, 4, 3, padding=1)), "has a gradient hook"),
    "a buffer": (lambda: buffered(nn.Conv2d(4, 4, 3, padding=1)), "has buffers (seen)"),
    "strides of its own": (lambda: strided(nn.Conv2d(4, 4, 3, padding=1)), "conv.weight has the strides"),
    "float16 beside a norm in float32": (lambda: nn.Conv2d(4, 4, 3, padding=1).half(), "is torch.float16 on cpu but"),
}


@pytest.mark.parametrize(("conv", "reason"), CONVS.values(), ids=CONVS)
def test_a_layer_with_a_state_of_its_own_stays(conv: Callable[[], Any], reason: str) -> None:
    gm = conv_and_norm(lambda m, x: m.norm(m.conv(x)) + m.conv(x.relu()))
    gm.conv = conv()
    assert_left_alone(CopySharedLayer(), gm, reason)


CALLS: dict[str, tuple[Callable[..., Any], str]] = {
    "another reader": (lambda m, x: m.norm(y := m.conv(x)) + y + m.conv(x.relu()), "conv has other users (add)"),
    "no norm": (lambda m, x: m.conv(m.conv(x).relu()), "conv, one of 2 calls of conv, is read by relu"),
    "nothing behind": (lambda m, x: m.conv(m.conv(x)), "is read by conv_1"),
    "a norm that is shared": (lambda m, x: m.norm(m.conv(m.norm(m.conv(x)))), "norm is called 2 times"),
    "a weight that is written to": (
        lambda m, x: m.norm(m.conv(x)) + (m.conv.weight.mul_(2), m.conv(x.relu()))[1],
        "may write to conv.weight",
    ),
}


@pytest.mark.parametrize(("forward", "reason"), CALLS.values(), ids=CALLS)
def test_a_call_behind_which_nothing_can_be_folded_stays(forward: Callable[..., Any], reason: str) -> None:
    assert_left_alone(CopySharedLayer(), conv_and_norm(forward), reason)


def test_a_norm_in_training_mode_and_a_layer_of_two_names_stay() -> None:
    gm = conv_and_norm(lambda m, x: m.norm(m.conv(x)) + m.conv(x.relu()))
    gm.norm.train()
    assert_left_alone(CopySharedLayer(), gm, "norm is in training mode")
    gm.norm.eval()
    gm.again = gm.conv
    assert_left_alone(CopySharedLayer(), gm, "conv is registered under 2 names: conv, again")


def test_autocast_stays() -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return m.norm(m.conv(x)) + m.conv(x.relu())

    assert_left_alone(CopySharedLayer(), conv_and_norm(forward), "runs under autocast")


def test_a_layer_that_is_called_once_has_nothing_to_say() -> None:
    scan = CopySharedLayer().scan(conv_and_norm(lambda m, x: m.norm(m.conv(x))))
    assert (scan.matches, scan.misses) == ((), ())


@pytest.mark.parametrize("odd", [torch.nan, torch.inf, -torch.inf, 1e38])
def test_the_bits_are_the_same_for_odd_numbers_and_an_empty_batch(odd: float) -> None:
    gm = fxopt.capture(Head().eval(), (X,))
    inputs = [X.clone().fill_(odd), X[:0], X.contiguous(memory_format=torch.channels_last)]
    before = [outputs(gm, (x,)) for x in inputs]
    CopySharedLayer()(gm)
    for x, old in zip(inputs, before):
        torch.testing.assert_close(outputs(gm, (x,)), old, rtol=0, atol=0, equal_nan=True)


def test_a_site_that_is_switched_off_leaves_the_other_copies() -> None:
    gm = conv_and_norm(
        lambda m, x: m.norm(m.conv(x)) + m.norm2(m.conv(x.relu())) + m.conv(x.sin()), norm2=tuned(nn.BatchNorm2d(4))
    )
    CopySharedLayer()(gm)
    CopySharedLayer().turn_off(gm, "conv")
    assert CopySharedLayer().sites_on(gm) == ("conv_1",)
    assert [match.site for match in CopySharedLayer().scan(gm).matches] == ["conv"]
    assert len(GraphIndex(gm).calls_of(gm.conv)) == 2


def test_the_laws_hold() -> None:
    assert check_pass(CopySharedLayer(), [(Head().eval(), (torch.rand(2, 4, 6, 6),))]).sites == 1
