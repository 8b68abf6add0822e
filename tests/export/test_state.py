"""Weights of the original for the transformed graph, and back after training."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.fx import GraphModule

import fxopt
from fxopt.export import StateError, to_original, to_transformed
from tests.quick import one_of_four

PASSES = (fxopt.MergeLinears, fxopt.FuseBiasInLinear, fxopt.RemoveIdentities, fxopt.ChangeTrueDivToMulByInverse)
CASES = [PASSES, *((kind,) for kind in PASSES)]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)
        self.q, self.k, self.out = nn.Linear(4, 6), nn.Linear(4, 3), nn.Linear(6, 70)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.conv(x)).mean((2, 3)) * 1
        return self.out(self.q(x)) / 3 + self.k(x).sum()


@pytest.fixture
def x() -> torch.Tensor:
    return torch.rand(2, 1, 6, 6)


@pytest.fixture
def gm(x: torch.Tensor) -> GraphModule:
    torch.manual_seed(0)
    return fxopt.capture(Net().eval(), (x,))


def trained(gm: GraphModule) -> None:
    with torch.no_grad():
        for parameter in gm.parameters():
            parameter.add_(torch.randn_like(parameter))


@pytest.mark.parametrize(("kinds", "dtype"), one_of_four(CASES, [torch.float32, torch.bfloat16]))
def test_trained_weights_are_carried_back_and_there_again(
    gm: GraphModule, x: torch.Tensor, kinds: tuple[type[fxopt.Pass], ...], dtype: torch.dtype
) -> None:
    gm, x = fxopt.capture(Net().eval().to(dtype), (x.to(dtype),)), x.to(dtype)
    names = list(gm.state_dict())
    for kind in kinds:
        kind()(gm)
    trained(gm)
    before = {name: tensor.clone() for name, tensor in gm.state_dict().items()}
    ledger = fxopt.core.Ledger.entries_of(gm)
    carried = to_original(gm)
    assert not carried.lost
    assert list(carried.state) == names
    again = to_transformed(gm, carried.state)
    assert list(again) == list(before)
    assert all(torch.equal(again[name], before[name]) for name in before)
    assert all(torch.equal(tensor, before[name]) for name, tensor in gm.state_dict().items()), "it is as it was"
    assert fxopt.core.Ledger.entries_of(gm) == ledger
    if dtype is torch.float32:
        model = Net().eval()
        model.load_state_dict(carried.state)
        torch.testing.assert_close(model(x), gm(x), rtol=1e-4, atol=1e-4)


def test_folded_weights_are_told_as_lost_and_the_others_carried_back(gm: GraphModule) -> None:
    fxopt.FuseBatchNorm2dInConv2d()(fxopt.MergeLinears()(gm))
    trained(gm)
    carried = to_original(gm)
    assert set(carried.lost) >= {"conv.weight", "conv.bias", "norm.weight", "norm.running_var"}
    assert carried.lost["conv.weight"].startswith("FuseBatchNorm2dInConv2d at ")
    assert torch.equal(carried.state["q.weight"], gm.get_submodule("q_k_merged").weight[:6])
    first, second, *_ = repr(carried).splitlines()
    assert first == f"CarriedBack: {len(carried.state)} of {len(carried.state) + len(carried.lost)} tensors"
    assert second.startswith("  lost conv.weight: FuseBatchNorm2dInConv2d at "), "and no number of them"


def copied_twice(gm: GraphModule) -> None:
    """Compute the mean of two copies of the layer out."""
    (node,) = gm.graph.find_nodes(op="call_module", target="out")
    for name in ("first", "second"):
        gm.add_submodule(name, copy.deepcopy(gm.get_submodule("out")))
    with gm.graph.inserting_after(node):
        other = gm.graph.call_module("second", node.args)
    with gm.graph.inserting_after(other):
        both = gm.graph.call_function(torch.lerp, (node, other, 0.5))
    node.replace_all_uses_with(both, lambda user: user is not both)
    node.target = "first"
    gm.delete_submodule("out")


def test_a_weight_of_which_two_copies_were_trained_apart_is_lost(gm: GraphModule) -> None:
    expected = gm.get_parameter("out.weight").detach().clone()
    fxopt.as_pass(copied_twice)(gm)
    carried = to_original(gm)
    assert not carried.lost
    assert torch.equal(carried.state["out.weight"], expected)
    with torch.no_grad():
        gm.get_parameter("second.weight")[3, 2] += 1
    carried = to_original(gm)
    assert carried.lost == {"out.weight": "it stands in several tensors of the transformed graph, and they differ now"}
    assert "out.bias" in carried.state


def test_weights_of_the_original_fold_as_the_pass_would(gm: GraphModule, x: torch.Tensor) -> None:
    other = Net().eval()
    fxopt.FuseBatchNorm2dInConv2d()(gm)
    expected = fxopt.FuseBatchNorm2dInConv2d()(fxopt.capture(other, (x,))).state_dict()
    found = to_transformed(gm, other.state_dict())
    assert list(found) == list(expected)
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_wrong_states_are_refused_with_names(gm: GraphModule) -> None:
    fxopt.MergeLinears()(gm)
    state = Net().state_dict()
    with pytest.raises(StateError, match=r"lacks q\.bias"):
        to_transformed(gm, {name: tensor for name, tensor in state.items() if name != "q.bias"})
    with pytest.raises(StateError, match="beside those of the original, more"):
        to_transformed(gm, state | {"more": torch.ones(1)})
    with pytest.raises(StateError, match=r"q.bias is \[7\], and \[6\] in the original"):
        to_transformed(gm, state | {"q.bias": torch.ones(7)})


def test_without_passes_both_are_the_weights_themselves(gm: GraphModule) -> None:
    carried = to_original(gm)
    assert not carried.lost
    assert all(torch.equal(carried.state[name], tensor) for name, tensor in gm.state_dict().items())


def copied_beside(gm: GraphModule) -> None:
    """Compute the mean of a layer and a copy of it."""
    (node,) = gm.graph.find_nodes(op="call_module", target="out")
    gm.add_submodule("copy", copy.deepcopy(gm.get_submodule("out")))
    with gm.graph.inserting_after(node):
        other = gm.graph.call_module("copy", node.args)
    with gm.graph.inserting_after(other):
        both = gm.graph.call_function(torch.lerp, (node, other, 0.5))
    node.replace_all_uses_with(both, lambda user: user is not both)


def test_a_weight_that_stays_beside_a_copy_is_lost_once_they_were_trained_apart(gm: GraphModule) -> None:
    fxopt.as_pass(copied_beside)(gm)
    carried = to_original(gm)
    assert not carried.lost
    assert torch.equal(carried.state["out.weight"], gm.get_parameter("out.weight"))
    with torch.no_grad():
        gm.get_parameter("copy.weight")[3, 2] += 1
    carried = to_original(gm)
    assert carried.lost == {"out.weight": "it stands in several tensors of the transformed graph, and they differ now"}
    assert torch.equal(carried.state["out.bias"], gm.get_parameter("out.bias"))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(3, 3), nn.Linear(3, 3)
        self.other.weight = self.one.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.one(x) * self.other(x)


def together(gm: GraphModule) -> None:
    """Read both layers from one copy, with a weight of its own."""
    for name in ("one", "other"):
        (node,) = gm.graph.find_nodes(op="call_module", target=name)
        made = copy.copy(gm.get_submodule(name))
        made._parameters = dict(made._parameters)
        shared = getattr(gm, "new_one", None)
        weight = nn.Parameter(made.weight.detach().clone()) if shared is None else shared.weight
        made.weight, made.bias = weight, nn.Parameter(made.bias.detach().clone())
        gm.add_submodule(f"new_{name}", made)
        node.target = f"new_{name}"
        gm.delete_submodule(name)


def test_tied_weights_are_carried_back_under_both_names_and_have_one_value() -> None:
    model = Tied().eval()
    gm = fxopt.capture(model, (torch.rand(2, 3),))
    fxopt.as_pass(together)(gm)
    trained(gm)
    carried = to_original(gm)
    assert not carried.lost
    assert list(carried.state) == list(model.state_dict())
    for name in ("one.weight", "other.weight"):
        assert torch.equal(carried.state[name], gm.get_parameter("new_one.weight"))
    again = to_transformed(gm, carried.state)
    assert all(torch.equal(again[name], tensor) for name, tensor in gm.state_dict().items())
    apart = carried.state | {"other.weight": carried.state["one.weight"] + 1}
    with pytest.raises(StateError, match=r"one.weight and other.weight are one tensor in the original"):
        to_transformed(gm, apart)
