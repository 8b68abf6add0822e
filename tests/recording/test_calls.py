"""Calls of a transformation by hand and their reverses, also by a reverse of its own."""

import operator
from typing import Any

import pytest
import torch
from torch.fx import GraphModule

import fxopt
from fxopt import (
    ChangeTrueDivToMulByInverse,
    FxoptWarning,
    MergeLinears,
    ReversibleTransformation,
    fingerprint,
)
from fxopt.core import Ledger
from tests.recording.by_hand import (
    ATTENTION,
    Twice,
    add_one,
    by_hand,
    erase_and_create_again,
    everything,
    graph,
    node,
    rename,
)


def test_as_many_calls_as_many_reverses() -> None:
    gm = graph()
    hand = by_hand(add_one)
    states = [everything(gm)]
    for _ in range(3):
        hand(gm)
        states.append(everything(gm))
    for state in reversed(states[:-1]):
        hand(gm, reverse=True)
        assert everything(gm) == state
    with pytest.warns(FxoptWarning, match="ByHand has no site in force"):
        hand(gm, reverse=True)


def test_one_that_changes_nothing_leaves_nothing_behind() -> None:
    gm = graph()
    by_hand(lambda gm: gm.graph.lint())(gm)
    assert Ledger.entries_of(gm) == ()
    assert "_fxopt_ledger" not in gm._modules


def test_a_later_pass_that_rests_on_it_is_undone_too_and_named() -> None:
    def add_division(gm: GraphModule) -> None:
        output = node(gm, "output")
        with gm.graph.inserting_before(output):
            new = gm.graph.call_function(operator.truediv, (output.args[0], 7))
            new.meta["tensor_info"] = fxopt.core.TensorInfo((3, 4), torch.float32)
        output.args = (new,)

    gm = ATTENTION.graph()
    before = fingerprint(gm)
    by_hand(add_division)(gm)
    ChangeTrueDivToMulByInverse()(gm)
    with pytest.warns(FxoptWarning, match="ChangeTrueDivToMulByInverse at truediv_1 rested on ByHand"):
        by_hand(add_division)(gm, reverse=True)
    assert [entry.site for entry in Ledger.entries_of(gm)] == ["truediv"]
    ChangeTrueDivToMulByInverse()(gm, reverse=True)
    assert fingerprint(gm) == before


def test_one_that_fails_when_it_runs_again_is_undone_and_named() -> None:
    def needs_mul(gm: GraphModule) -> None:
        node(gm, "mul_1" if "mul_1" in {n.name for n in gm.graph.nodes} else "missing").meta["seen"] = True

    def add_mul(gm: GraphModule) -> None:
        with gm.graph.inserting_before(node(gm, "output")):
            gm.graph.call_function(operator.mul, (node(gm, "add"), 1))

    gm = graph()
    before = everything(gm)
    first, second = by_hand(add_mul), by_hand(needs_mul, tag=1)
    type(second).__qualname__ = "Second"
    first(gm)
    second(gm)
    with pytest.warns(FxoptWarning) as caught:
        first(gm, reverse=True)
    said = [str(warning.message) for warning in caught]
    assert any("failed when it ran again: StopIteration" in text for text in said)
    assert any("rested on ByHand and no longer applies" in text for text in said)
    assert everything(gm) == before


class TwiceRoughly(Twice):
    def half(self, number: Any) -> Any:
        return number / 2


def test_an_own_reverse_is_called_and_leaves_nothing_where_it_is_exact() -> None:
    gm = graph()
    before = everything(gm)
    Twice()(gm)
    assert node(gm, "truediv").args[1] == 6
    Twice()(gm, reverse=True)
    assert everything(gm) == before
    assert Ledger.entries_of(gm) == ()


def test_what_an_own_reverse_leaves_behind_is_kept_and_the_rest_still_reverses_exactly() -> None:
    gm = graph()
    before = everything(gm)
    rename_it = by_hand(rename)
    rename_it(gm)
    TwiceRoughly()(gm)
    TwiceRoughly()(gm, reverse=True)
    assert repr(node(gm, "truediv").args[1]) == "3.0"
    rename_it(gm, reverse=True)
    assert repr(node(gm, "truediv").args[1]) == "3.0", "it is what its own reverse made of it"
    assert node(gm, "mul")
    gm.graph.lint()
    assert everything(gm) != before
    assert len(Ledger.entries_of(gm)) == 1
    Ledger.of(gm).rewind(fxopt.core.GraphIndex(gm), 0)
    Ledger.of(gm).close()
    gm.recompile()
    assert everything(gm) == before


def test_an_own_reverse_runs_beneath_what_was_done_later() -> None:
    gm = ATTENTION.graph()
    before = fingerprint(gm)
    Twice()(gm)
    MergeLinears()(gm)
    Twice()(gm, reverse=True)
    assert [entry.name for entry in Ledger.entries_of(gm)] == ["MergeLinears"]
    MergeLinears()(gm, reverse=True)
    assert fingerprint(gm) == before


def test_a_failing_own_reverse_leaves_everything_as_it_was() -> None:
    class Fails(Twice):
        def half(self, number: Any) -> Any:
            raise ZeroDivisionError("on purpose")

    gm = ATTENTION.graph()
    Fails()(gm)
    MergeLinears()(gm)
    changed = fingerprint(gm)
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        Fails()(gm, reverse=True)
    gm.recompile()
    assert fingerprint(gm) == changed


def test_a_reversible_transformation_without_a_reverse_takes_that_of_the_ledger() -> None:
    class Simple(ReversibleTransformation):
        def transform(self, graph_module: GraphModule) -> GraphModule:
            erase_and_create_again(graph_module)
            return graph_module

    gm = graph()
    before = everything(gm)
    Simple()(gm)
    assert Simple().reverse(gm) is gm
    gm.recompile()
    assert everything(gm) == before
