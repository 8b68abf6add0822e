"""Writes to numbers and broken graphs by hand: refused, or undone where tensors are copied."""

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx import GraphModule

import fxopt
from fxopt import (
    RewriteError,
    Transformation,
    fingerprint,
)
from fxopt.core import Ledger
from tests.recording.by_hand import (
    IN_PLACE,
    X,
    by_hand,
    erase_and_create_again,
    everything,
    graph,
    model,
    node,
    rename,
    state_of_the_model,
)


def write(gm: GraphModule) -> None:
    with torch.no_grad():
        gm.block.first.weight.mul_(2)


def write_through_data(gm: GraphModule) -> None:
    gm.block.first.weight.data.mul_(2)


def copy_into(gm: GraphModule) -> None:
    gm.block.first.weight.data.copy_(torch.eye(4))


def run_in_training_mode(gm: GraphModule) -> None:
    gm.train()
    gm.recompile()
    gm(X)
    gm.eval()


WRITES = pytest.mark.parametrize(
    ("act", "path"),
    [
        (write, "block.first.weight"),
        (write_through_data, "block.first.weight"),
        (copy_into, "block.first.weight"),
        (run_in_training_mode, "norm.running_mean"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)


@WRITES
def test_numbers_written_over_in_place_are_refused_by_name_and_the_graph_is_as_it_was(act: Any, path: str) -> None:
    gm = graph()
    nodes = [one.format_node() for one in gm.graph.nodes]

    def both(gm: GraphModule) -> None:
        erase_and_create_again(gm)
        act(gm)

    with pytest.raises(RewriteError, match=f"ByHand wrote over the numbers of .*{path}.*copy_tensors = True") as caught:
        by_hand(both)(gm)
    assert path in caught.value.__notes__[0]
    assert [one.format_node() for one in gm.graph.nodes] == nodes
    assert Ledger.entries_of(gm) == ()


@WRITES
def test_with_copied_tensors_they_are_undone_and_the_users_model_keeps_its_own(act: Any, path: str) -> None:
    mine = model()
    state = state_of_the_model(mine)
    gm = graph(mine)
    before = everything(gm)
    careful = by_hand(act, copy_tensors=True)
    careful(gm)
    changed = gm.state_dict()[path]
    assert not torch.equal(changed, mine.state_dict()[path])
    assert gm.tied.weight is gm.block.first.weight, "what was tied is tied"
    assert state_of_the_model(mine) == state
    careful(gm, reverse=True)
    assert everything(gm) == before


def test_with_copied_tensors_a_single_number_written_through_data_is_noticed() -> None:
    def poke(gm: GraphModule) -> None:
        gm.block.first.weight.data[1, 1] = float("nan")

    gm = graph()
    before = everything(gm)
    by_hand(poke, copy_tensors=True)(gm)
    assert gm.block.first.weight.isnan().sum() == 1
    by_hand(poke, copy_tensors=True)(gm, reverse=True)
    assert everything(gm) == before


def test_with_copied_tensors_a_failure_puts_the_numbers_back() -> None:
    def fail(gm: GraphModule) -> None:
        write(gm)
        raise ZeroDivisionError

    gm = graph()
    before = everything(gm)
    with pytest.raises(ZeroDivisionError):
        by_hand(fail, copy_tensors=True)(gm)
    assert everything(gm) == before


def test_a_failure_after_numbers_were_written_over_says_so() -> None:
    def fail(gm: GraphModule) -> None:
        write(gm)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        by_hand(fail)(graph())
    assert caught.value.__notes__ == [
        "The graph module is as it was, except for the numbers in block.first.weight, which were written over."
    ]


@pytest.mark.parametrize(("returned", "words"), [(None, "None"), (3, "a int"), (nn.ReLU(), "a ReLU")])
def test_returning_something_else_than_a_graph_module_is_a_clear_error(returned: Any, words: str) -> None:
    class Forgetful(Transformation):
        def transform(self, graph_module: GraphModule) -> GraphModule:
            rename(graph_module)
            return returned  # type: ignore[no-any-return]

    gm = graph()
    before = everything(gm)
    with pytest.raises(TypeError, match=f"Forgetful.transform returned {words}; it must return"):
        Forgetful()(gm)
    assert everything(gm) == before


def test_a_broken_graph_is_refused_and_rolled_back() -> None:
    def break_it(gm: GraphModule) -> None:
        node(gm, "x").prepend(node(gm, "add"))

    gm = graph()
    before = everything(gm)
    with pytest.raises(RewriteError, match=r"ByHand left a malformed graph: .*used before it"):
        by_hand(break_it)(gm)
    assert everything(gm) == before

    def lose_a_module(gm: GraphModule) -> None:
        del gm.block.first

    with pytest.raises(RewriteError, match=r"malformed graph: .*block.first"):
        by_hand(lose_a_module)(gm)
    assert everything(gm) == before


def test_code_that_does_not_compile_is_rolled_back() -> None:
    def two_inputs_of_one_name(gm: GraphModule) -> None:
        with gm.graph.inserting_after(node(gm, "x")):
            gm.graph.placeholder("x")

    gm = graph()
    before, result = everything(gm), gm(X)
    with pytest.raises(SyntaxError, match="duplicate argument 'x'") as caught:
        by_hand(two_inputs_of_one_name)(gm)
    assert caught.value.__notes__ == ["The graph module is as it was before the call."]
    assert everything(gm) == before
    assert torch.equal(gm(X), result)


@pytest.mark.parametrize("act", IN_PLACE, ids=lambda act: act.__name__)
def test_copies_reverse_what_was_done_before_they_were_made(act: Any) -> None:
    gm = graph()
    before = fingerprint(gm)
    by_hand(act)(gm)
    for copied in (copy.deepcopy(gm), fxopt.core.shared_copy(gm), copy.deepcopy(fxopt.core.shared_copy(gm))):
        assert fingerprint(by_hand(act)(copied, reverse=True)) == before
    assert fingerprint(by_hand(act)(gm, reverse=True)) == before


def test_the_graph_of_a_graph_module_inside_is_refused() -> None:
    class Tracer(torch.fx.Tracer):
        def is_leaf_module(self, module: nn.Module, path: str) -> bool:
            return isinstance(module, GraphModule) or super().is_leaf_module(module, path)

    outer = nn.Sequential(graph(), nn.ReLU())
    gm = GraphModule(outer, Tracer().trace(outer))
    inner = gm.get_submodule("0")
    before = fingerprint(gm), fingerprint(inner)  # type: ignore[arg-type]
    with pytest.raises(RewriteError, match=r"changed the graph of .*a graph module inside"):
        by_hand(lambda gm: rename(gm.get_submodule("0")))(gm)
    assert (fingerprint(gm), fingerprint(inner)) == before  # type: ignore[arg-type]
