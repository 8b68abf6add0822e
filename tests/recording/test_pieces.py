"""Snapshots: edits after a call, threads, and copies without numbers."""

import operator
import threading
from typing import Any

import pytest
import torch
from torch.fx import GraphModule

from fxopt import (
    ChangeTrueDivToMulByInverse,
    FuseBatchNorm2dInConv2d,
    FuseBiasInLinear,
    MergeLinears,
    RewriteError,
    compose,
    fingerprint,
)
from fxopt.core import Ledger
from fxopt.recording.difference import diff_snapshots
from fxopt.recording.snapshot import Snapshot
from tests.examples import Example
from tests.recording.by_hand import (
    assign_parameter,
    by_hand,
    erase_and_create_again,
    every_example,
    everything,
    graph,
    model,
    move,
    node,
    replace_module,
    types_and_metadata,
    wrap_module,
)


def test_an_edit_by_hand_after_a_call_is_never_damaged() -> None:
    gm = graph()
    by_hand(erase_and_create_again)(gm)
    with gm.graph.inserting_before(node(gm, "output")):
        gm.graph.call_function(torch.relu, (node(gm, "mul_1"),))
    gm.recompile()
    changed = everything(gm)
    with pytest.raises(RewriteError, match="mul_1 has to stay in the graph: relu came to use it"):
        by_hand(erase_and_create_again)(gm, reverse=True)
    assert everything(gm) == changed


def test_an_edit_by_hand_elsewhere_does_not_stand_in_the_way() -> None:
    gm = graph()
    by_hand(move)(gm)
    by_hand(erase_and_create_again)(gm)
    node(gm, "sub").target = operator.add
    with gm.graph.inserting_before(node(gm, "output")):
        relu = gm.graph.call_function(torch.relu, (node(gm, "sub"),))
    gm.register_buffer("mine", torch.ones(1))
    by_hand(erase_and_create_again)(gm, reverse=True)
    by_hand(move)(gm, reverse=True)
    gm.graph.lint()
    assert node(gm, "truediv").args[1] == 3
    assert node(gm, "sub").target is operator.add
    assert relu in set(gm.graph.nodes)
    assert "mine" in dict(gm.named_buffers())


def test_trained_weights_that_the_call_put_in_are_not_thrown_away() -> None:
    gm = graph()
    by_hand(wrap_module)(gm)
    with torch.no_grad():
        gm.block.second[0].weight.add_(1)
    by_hand(wrap_module)(gm, reverse=True)  # the same tensors are there before and after

    by_hand(assign_parameter)(gm)
    with torch.no_grad():
        gm.tied.bias.add_(1)
    with pytest.raises(RewriteError, match=r"tied.bias, made by ByHand, was given other values"):
        by_hand(assign_parameter)(gm, reverse=True)


def test_two_threads_do_not_meet() -> None:
    mine = model()
    graphs = [graph(mine) for _ in range(2)]
    before = [everything(gm) for gm in graphs]
    failed: list[BaseException] = []

    def work(gm: GraphModule, acts: list[Any]) -> None:
        try:
            for act in acts * 3:
                by_hand(act)(gm)
                by_hand(act)(gm, reverse=True)
        except BaseException as error:
            failed.append(error)
            raise

    acts = [erase_and_create_again, replace_module, types_and_metadata, move]
    threads = [threading.Thread(target=work, args=(gm, acts)) for gm in graphs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert [everything(gm) for gm in graphs] == before


@every_example
def test_the_difference_of_a_graph_with_itself_is_empty(example: Example) -> None:
    gm = example.graph()
    assert diff_snapshots(Snapshot(gm), Snapshot(gm)).changes == ()


@every_example
def test_a_pass_undone_by_a_snapshot_is_as_undone_by_its_ledger(example: Example) -> None:
    gm = example.graph()
    before = fingerprint(gm)
    compose(ChangeTrueDivToMulByInverse(), FuseBatchNorm2dInConv2d(), MergeLinears(), FuseBiasInLinear())
    passes = by_hand(
        lambda gm: compose(
            ChangeTrueDivToMulByInverse(), FuseBatchNorm2dInConv2d(), MergeLinears(), FuseBiasInLinear()
        )(gm)
    )
    passes(gm)
    assert len(Ledger.entries_of(gm)) <= 1
    if Ledger.entries_of(gm):
        passes(gm, reverse=True)
    assert fingerprint(gm) == before


def test_taking_a_snapshot_copies_no_numbers() -> None:
    gm = graph()
    snapshot = Snapshot(gm)
    assert all(state.copied is None for state in snapshot.tensors.values())
    for state in snapshot.tensors.values():
        assert state.numbers.data_ptr() == state.tensor.data_ptr()
