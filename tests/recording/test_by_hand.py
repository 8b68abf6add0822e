"""Whatever a transformation does by hand to a graph module is undone to the bit."""

import operator
from typing import Any

import pytest
import torch
from torch.fx import GraphModule

from fxopt import (
    ChangeTrueDivToMulByInverse,
    FuseBiasInLinear,
)
from fxopt.core import Ledger
from tests.recording.by_hand import (
    IN_PLACE,
    X,
    by_hand,
    every_act,
    everything,
    graph,
    model,
    state_of_the_model,
)


@every_act
def test_whatever_a_hand_does_is_undone_to_the_bit(act: Any) -> None:
    gm = graph()
    before, result = everything(gm), gm(X)
    new = by_hand(act)(gm)
    assert everything(new) != before, "it did something"
    restored = by_hand(act)(new, reverse=True)
    assert restored is new
    assert everything(restored) == before
    restored.graph.lint()
    assert torch.equal(restored(X), result)
    assert Ledger.entries_of(restored) == ()


@every_act
def test_the_users_model_stays_as_it_was_forward_and_back(act: Any) -> None:
    mine = model()
    before = state_of_the_model(mine)
    gm = graph(mine)
    new = by_hand(act)(gm)
    assert state_of_the_model(mine) == before
    by_hand(act)(new, reverse=True)
    assert state_of_the_model(mine) == before


@every_act
def test_automatic_names_do_not_depend_on_what_was_done_and_undone(act: Any) -> None:
    def next_names(gm: GraphModule) -> list[str]:
        targets = (torch.relu, operator.mul, operator.add, operator.truediv, torch.relu)
        return [gm.graph.call_function(target, ()).name for target in targets]

    gm = graph()
    restored = by_hand(act)(by_hand(act)(gm), reverse=True)
    assert next_names(restored) == next_names(graph())


@pytest.mark.parametrize("act", IN_PLACE, ids=lambda act: act.__name__)
def test_a_failure_leaves_everything_as_it_was(act: Any) -> None:
    mine = model()
    gm = graph(mine)
    nodes = list(gm.graph.nodes)
    before, state = everything(gm), state_of_the_model(mine)
    users = {one.name: list(one.users) for one in nodes}

    def fail(gm: GraphModule) -> None:
        act(gm)
        gm.recompile()
        raise ZeroDivisionError("on purpose")

    with pytest.raises(ZeroDivisionError, match="on purpose") as caught:
        by_hand(fail)(gm)
    assert caught.value.__notes__ == ["The graph module is as it was before the call."]
    assert everything(gm) == before
    assert list(gm.graph.nodes) == nodes, "the very same node objects"
    assert {one.name: list(one.users) for one in nodes} == users
    assert state_of_the_model(mine) == state
    gm.graph.lint()
    by_hand(act)(gm)
    by_hand(act)(gm, reverse=True)
    assert everything(gm) == before, "and it goes on from there"


@every_act
def test_between_other_passes_it_reverses_in_any_order(act: Any) -> None:
    gm = graph()
    before = everything(gm)
    div, hand, bias = ChangeTrueDivToMulByInverse(), by_hand(act), FuseBiasInLinear()
    gm = bias(hand(div(gm)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *args, **kwargs: None)  # what rests on what is another test's matter
        for part in (div, hand, bias):
            part(gm, reverse=True)
    assert everything(gm) == before


@pytest.mark.parametrize("act", IN_PLACE, ids=lambda act: act.__name__)
def test_undone_and_done_again_it_is_the_same(act: Any) -> None:
    one, two = graph(), graph()
    by_hand(act)(one)
    div = ChangeTrueDivToMulByInverse()
    div(two)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *args, **kwargs: None)
        by_hand(act)(two)
        div(two, reverse=True)  # so what the hand did is undone, and done again on the graph without div
    assert [n.format_node() for n in one.graph.nodes] == [n.format_node() for n in two.graph.nodes]
    assert list(one.state_dict()) == list(two.state_dict())
    assert one.code == two.code
