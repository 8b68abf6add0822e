import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.fx import GraphModule

from fxopt import fingerprint
from fxopt.core import Fingerprint
from fxopt.graph.copying import shared_copy
from tests.examples import EXAMPLES


def graph() -> GraphModule:
    return copy.deepcopy(EXAMPLES[0].graph())


def change_a_bit(gm: GraphModule) -> None:
    with torch.no_grad():
        gm.get_submodule("q").weight.view(torch.int32)[0, 0] ^= 1


def rename(gm: GraphModule) -> None:
    next(iter(gm.graph.nodes)).name = "other"


def reorder_modules(gm: GraphModule) -> None:
    gm._modules["q"] = gm._modules.pop("q")  # type: ignore[assignment]


def retie(gm: GraphModule) -> None:
    gm.get_submodule("v").bias = gm.get_submodule("k").bias


def other_meta(gm: GraphModule) -> None:
    next(iter(gm.graph.nodes)).meta["source"] = None


@pytest.mark.parametrize(
    "change",
    [
        change_a_bit,
        rename,
        reorder_modules,
        retie,
        other_meta,
        lambda gm: gm.get_submodule("q").requires_grad_(False),
        lambda gm: setattr(gm.get_submodule("q"), "weight", nn.Parameter(gm.q.weight.t().contiguous().t())),
        lambda gm: gm.register_buffer("extra", torch.ones(1)),
        lambda gm: gm.half(),
        lambda gm: gm.get_submodule("q").train(),
    ],
)
def test_every_kind_of_difference_shows(change: Callable[[GraphModule], object]) -> None:
    gm = graph()
    memory = Fingerprint()
    before = memory.of(gm)
    assert before == fingerprint(gm) == fingerprint(graph())
    change(gm)
    assert fingerprint(gm) != before
    assert memory.of(gm) == fingerprint(gm), "what is remembered of a tensor is given up when it changes"


def test_a_shared_copy_is_the_same_to_the_last_bit_and_shares_its_weights() -> None:
    gm = graph()
    new = shared_copy(gm)
    assert fingerprint(new) == fingerprint(gm)
    assert all(a is b for a, b in zip(gm.parameters(), new.parameters(), strict=True))
    assert new.graph is not gm.graph
    rename(new)
    assert fingerprint(new) != fingerprint(gm)
    assert next(iter(gm.graph.nodes)).name == "x"


def test_a_shared_copy_keeps_containers_that_are_registered_twice_one() -> None:
    gm = torch.fx.symbolic_trace(nn.Sequential(nn.Sequential(nn.Linear(2, 2))))
    gm._modules["again"] = gm._modules["0"]
    new = shared_copy(gm)
    assert new._modules["again"] is new._modules["0"]
    assert new._modules["0"] is not gm._modules["0"]
