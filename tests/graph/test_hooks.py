"""Hooks of tensors are heard as those of modules are: no pass takes away the tensor that calls one."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx import GraphModule

import fxopt
from fxopt import ALL_PASSES, MergeLinears, Pass, RewriteError, fingerprint
from fxopt.core import GraphIndex, Ledger
from tests.examples import Example
from tests.fuzz.rules import add_linears, fold_scale, join_linears
from tests.passes.declared import EXAMPLES
from tests.quick import third

PASSES: list[Pass[Any]] = [*(kind() for kind in ALL_PASSES), fold_scale, join_linears, add_linears]
FEW = [one for one in EXAMPLES if one.name in ("attention", "conv blocks", "heads", "functional", "exported")]
HOOKS: list[Callable[[torch.Tensor], Any]] = [
    lambda tensor: tensor.register_hook(lambda gradient: gradient * 2),
    lambda tensor: tensor.register_post_accumulate_grad_hook(lambda parameter: None),
]


@pytest.mark.parametrize("pass_", PASSES, ids=lambda p: p.name)
@pytest.mark.parametrize("example", third(FEW), ids=lambda e: e.name)
def test_no_pass_takes_away_a_tensor_that_calls_a_hook(pass_: Pass[Any], example: Example) -> None:
    gm = example.graph()
    pass_.apply(GraphIndex(gm))
    members = [member for entry in Ledger.entries_of(gm) for member in entry.patch.members]
    taken = {name for name, tensor in example.graph().named_parameters() if name not in dict(gm.named_parameters())}
    taken |= {member.path for member in members if isinstance(member.old, nn.Parameter)}
    for member in members:
        if isinstance(member.old, nn.Module):
            taken |= {f"{member.path}.{name}" for name, _ in member.old.named_parameters()}
    for number, name in enumerate(sorted(taken)):
        gm = example.graph()
        tensor = dict(gm.named_parameters(remove_duplicate=False)).get(name)
        if tensor is None:  # made by one site, taken by the next
            continue
        handle = HOOKS[number % len(HOOKS)](tensor)
        try:
            _check_that_it_stays(pass_, gm, name, tensor)
        finally:
            handle.remove()  # an exported program shares its tensors with all graphs of it


def _check_that_it_stays(pass_: Pass[Any], gm: GraphModule, name: str, tensor: torch.Tensor) -> None:
    before = fingerprint(gm)
    misses = [miss for miss in pass_.scan(gm).misses if f"{name} has a gradient hook" in miss.reason]
    assert misses, f"{pass_.name} says nothing of the hook of {name}"
    assert fingerprint(gm) == before
    pass_.apply(GraphIndex(gm))
    assert any(mine is tensor for mine in gm.parameters()), f"{pass_.name} took {name} away"


def test_a_hook_that_is_put_on_a_merged_weight_is_not_lost_by_reversing() -> None:
    gm = fxopt.capture(nn.Sequential(Twins()), (torch.rand(2, 3),))
    MergeLinears()(gm)
    (name,) = [name for name, _ in gm.named_parameters() if name.endswith("merged.weight")]
    handle = gm.get_parameter(name).register_hook(lambda gradient: gradient)
    with pytest.raises(RewriteError, match="gradient hook"):
        MergeLinears()(gm, reverse=True)
    handle.remove()
    MergeLinears()(gm, reverse=True)


def test_a_hook_is_called_as_often_after_all_passes_as_before() -> None:
    calls: list[str] = []
    model = copy.deepcopy(Twins())
    for name, parameter in model.named_parameters():
        parameter.register_hook(lambda gradient, name=name: calls.append(name))
    gm = fxopt.capture(model, (torch.rand(2, 3),))
    for pass_ in PASSES:
        pass_.apply(GraphIndex(gm))
    gm.recompile()
    gm(torch.rand(2, 3)).sum().backward()
    assert sorted(calls) == sorted(name for name, _ in model.named_parameters())


class Twins(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.a(x) * 3 + self.b(x)
