"""Compositions of transformations by hand and of passes."""

from typing import Any

import pytest
from torch.fx import GraphModule

from fxopt import (
    ChangeTrueDivToMulByInverse,
    FuseBiasInLinear,
    MergeLinears,
    compose,
    fingerprint,
)
from fxopt.core import Ledger
from tests.recording.by_hand import (
    Twice,
    a_copy,
    add_one,
    assign_parameter,
    by_hand,
    erase_and_create_again,
    every_act,
    everything,
    graph,
    node,
    other_passes,
    rename,
)


def test_compositions_of_anything_reverse_nested_and_single() -> None:
    hand, other = by_hand(erase_and_create_again), by_hand(assign_parameter)
    for whole in (
        compose(hand),
        compose(compose(hand)),
        compose(hand, FuseBiasInLinear(), compose(other, compose(ChangeTrueDivToMulByInverse(), Twice()))),
        compose(by_hand(add_one), by_hand(add_one)),
    ):
        gm = graph()
        before = everything(gm)
        whole(gm)
        assert everything(gm) != before
        whole(gm, reverse=True)
        assert everything(gm) == before


@every_act
def test_a_composition_that_is_not_in_place_never_touches_its_input(act: Any) -> None:
    gm = graph()
    before = everything(gm)
    whole = compose(by_hand(act), ChangeTrueDivToMulByInverse(), inplace=False)
    new = whole(gm)
    assert everything(gm) == before
    changed = everything(new)
    restored = whole(new, reverse=True)
    assert everything(new) == changed
    assert everything(gm) == before
    assert restored is not new
    assert fingerprint(restored) == before[0]
    if act is not a_copy:
        assert restored.get_submodule("norm") is gm.get_submodule("norm"), "weights are shared, not copied"


def test_a_composition_is_all_or_nothing() -> None:
    def fail(gm: GraphModule) -> None:
        raise ZeroDivisionError("on purpose")

    gm = graph()
    before = everything(gm)
    whole = compose(by_hand(rename), FuseBiasInLinear(), by_hand(fail))
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        whole(gm)
    gm.recompile()
    assert everything(gm) == before


def test_a_composition_that_ends_in_a_broken_graph_is_rolled_back() -> None:
    def break_it(gm: GraphModule) -> None:
        node(gm, "x").prepend(node(gm, "add"))

    gm = graph()
    before = everything(gm)
    with pytest.raises(RuntimeError, match="before it has been defined"):
        compose(FuseBiasInLinear(), by_hand(break_it))(gm)
    gm.recompile()
    assert everything(gm) == before


def test_a_transformation_that_calls_passes_inside_is_one_entry() -> None:
    gm = graph()
    before = everything(gm)
    MergeLinears()(gm)
    by_hand(other_passes)(gm)
    assert [entry.name for entry in Ledger.entries_of(gm)][-1] == "ByHand"
    by_hand(other_passes)(gm, reverse=True)
    assert everything(gm) == before
