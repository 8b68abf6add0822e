"""Workbenches of one graph module that share all that is the same for each, and graphs that are let go of."""

import gc
import random
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch.fx import GraphModule

from fxopt import Workbench, fingerprint
from fxopt.edits import SetArgument
from tests.examples import EXAMPLES, Example
from tests.quick import third

ATTENTION = EXAMPLES[0]


def all_on(wb: Workbench) -> Workbench:
    for state in wb.states:
        if wb.state_of(state.name).sites:
            wb.turn_on(state.name)
    return wb


def own_bytes(gm: GraphModule, others: list[GraphModule]) -> int:
    """The bytes of parameters and buffers of `gm` that none of the others has."""
    known = {tensor.untyped_storage().data_ptr() for other in others for tensor in _tensors(other)}
    own = {tensor.untyped_storage().data_ptr(): tensor.nbytes for tensor in _tensors(gm)}
    return sum(size for place, size in own.items() if place not in known)


def _tensors(gm: GraphModule) -> list[torch.Tensor]:
    return [*gm.parameters(), *gm.buffers()]


@pytest.mark.parametrize("example", third(EXAMPLES), ids=lambda example: example.name)
def test_another_workbench_gives_the_same_graphs_as_one_of_its_own(example: Example) -> None:
    pristine = example.graph()
    first = Workbench(pristine)
    another, own = first.another(), Workbench(pristine)
    assert another.is_restored
    assert not another.is_changed
    assert _told(another) == _told(own)
    choose = random.Random(0)
    for _ in range(8):
        name = choose.choice([state.name for state in own.states])
        on = not own.state_of(name).on
        for wb in (another, own):
            wb.turn_on(name) if on else wb.turn_off(name)
        if choose.random() < 0.3:
            another.release()
        assert _told(another) == _told(own)
        assert fingerprint(another.current) == fingerprint(own.current)
    another.reverse_all()
    assert another.is_restored
    assert not first.is_changed
    assert fingerprint(pristine) == first.fingerprint


def _told(wb: Workbench) -> list[object]:
    return [(state.name, state.on, state.sites, state.misses, state.error) for state in wb.states]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_a_further_workbench_with_the_same_passes_has_no_weights_of_its_own(example: Example) -> None:
    first = Workbench(example.graph())
    others = [all_on(first.another()).current for _ in range(2)]
    assert own_bytes(others[1], [first.pristine, others[0]]) == 0


def test_workbenches_of_their_own_share_no_computed_weight() -> None:
    pristine = ATTENTION.graph()
    graphs = [all_on(Workbench(pristine)).current for _ in range(2)]
    assert own_bytes(graphs[1], graphs[:1]) > 0


def test_a_release_lets_go_of_the_graph_and_what_was_on_stays_on() -> None:
    wb = all_on(Workbench(ATTENTION.graph()).another())
    wb.edit(SetArgument("transpose_4", "args[1]", -3))
    choices, states, before = wb.choices, wb.states, fingerprint(wb.current)
    graph = weakref.ref(wb.current)
    wb.release()
    gc.collect()
    assert graph() is None
    assert (wb.choices, wb.states, wb.can_undo) == (choices, states, True)
    assert fingerprint(wb.current) == before
    wb.release()
    wb.undo()
    wb.reverse_all()
    wb.release()
    assert wb.is_restored


def test_a_pristine_weight_written_to_is_not_called_restored_where_nothing_was_switched_yet() -> None:
    pristine = ATTENTION.graph()
    wb = Workbench(pristine).another()
    assert wb.is_restored
    with torch.no_grad():
        pristine.get_parameter("q.weight").add_(1)
    assert not wb.is_restored


def test_workbenches_in_threads_of_their_own_come_to_the_graph_of_one_alone() -> None:
    pristine = ATTENTION.graph()
    first = Workbench(pristine)

    def visit(seed: int) -> str:
        wb, choose = first.another(), random.Random(seed)
        for _ in range(12):
            name = choose.choice([state.name for state in wb.states])
            wb.turn_off(name) if wb.state_of(name).on else wb.turn_on(name)
        wb.reverse_all()
        assert wb.is_restored
        return fingerprint(all_on(wb).current)

    with ThreadPoolExecutor(6) as pool:
        found = set(pool.map(visit, range(12)))
    assert found == {fingerprint(all_on(Workbench(pristine)).current)}
