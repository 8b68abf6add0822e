"""Passes and edits in one order: each act runs on the graph that the acts before it left, and is taken back exactly."""

from __future__ import annotations

import random

import pytest
import torch
from torch import nn
from torch.fx import symbolic_trace

from fxopt import FuseBatchNorm2dInConv2d, Recipe, Workbench, capture, fingerprint
from fxopt.edits import Delete, Edit, EditError, Insert, SetArgument
from fxopt.workbench.standing import standing_of
from tests.edits.model import small

FUSE = FuseBatchNorm2dInConv2d().name


def parted() -> Workbench:
    """Two convolutions before batch norms: the pass matches at the first, and an activation parts the second."""
    torch.manual_seed(0)
    layers = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Conv2d(2, 2, 3), nn.ReLU(), nn.BatchNorm2d(2)
    return Workbench(capture(symbolic_trace(nn.Sequential(*layers).eval()), (torch.rand(2, 1, 8, 8),)))


def sites(wb: Workbench) -> list[str]:
    return [site.site for site in wb.state_of(FUSE).sites]


def test_an_edit_makes_a_pass_match_and_its_removal_ends_that() -> None:
    wb = parted()
    assert sites(wb) == ["_1"]
    edit = wb.edit(Delete("_3", "_2"))
    assert sites(wb) == ["_1", "_4"], "the pass is asked about the graph that the edit leaves"
    wb.turn_on(FUSE)
    assert [node.name for node in wb.current.graph.nodes if node.op == "call_module"] == ["_0", "_2"]
    wb.turn_off(edit)
    assert sites(wb) == ["_1"]
    wb.turn_on(edit)
    assert wb.state_of(FUSE).sites_on == 2
    wb.remove(edit)
    assert sites(wb) == ["_1"]
    while wb.can_undo:
        wb.undo()
    assert wb.is_restored
    assert sites(wb) == ["_1"]


def test_a_pass_matches_no_longer_at_a_node_that_an_edit_took_away() -> None:
    wb = parted()
    wb.edit(Delete("_1", "_0"))
    assert sites(wb) == []


def test_a_pass_that_runs_before_an_edit_tells_of_its_sites_behind_it_and_finds_them_there() -> None:
    wb = parted()
    wb.turn_on(FUSE)
    assert standing_of(wb, FUSE) is None
    edit = wb.edit(Delete("_3", "_2"))
    assert sites(wb) == ["_1"], "it is on, and keeps its place"
    standing = standing_of(wb, FUSE)
    assert standing is not None
    assert (standing.edits, standing.more, standing.fewer) == ((edit.name,), ("_4",), ())
    before = fingerprint(wb.current)
    wb.move(FUSE, standing.behind)
    assert wb.state_of(FUSE).sites_on == 2
    assert standing_of(wb, FUSE) is None
    wb.undo()
    assert fingerprint(wb.current) == before
    wb.turn_off(FUSE)
    gone = wb.edit(Delete("_1", "_0"))
    wb.move(FUSE, 0)
    standing = standing_of(wb, FUSE)
    assert standing is not None
    assert (standing.edits, standing.more, standing.fewer) == ((edit.name, gone.name), ("_4",), ("_1",))


def test_passes_that_are_on_and_edits_keep_their_order_when_an_edit_comes() -> None:
    wb = Workbench(small())
    names = [one.name for one in wb.order]
    wb.turn_on("MergeLinears")
    first = wb.edit(Insert("sub", "ReLU"))
    wb.turn_off(first)
    wb.turn_on("FuseBatchNorm2dInConv2d")
    second = wb.edit(SetArgument("truediv", "args[1]", 2.0))
    acts = ["MergeLinears", first.name, "FuseBatchNorm2dInConv2d", second.name]
    assert [one.name for one in wb.order] == [*acts, *(name for name in names if name not in acts)]


EDITS: tuple[Edit, ...] = (
    SetArgument("truediv", "args[1]", 2.0),
    Delete("norm", "conv"),
    Delete("act", "norm"),
    Insert("sub", "ReLU"),
    Insert("a", "Tanh"),
    Delete("drop", "sub"),
)


def act_at_random(wb: Workbench, draw: random.Random) -> None:
    state = draw.choice(wb.states)
    kind = draw.choice(["on", "on", "on", "off", "edit", "edit", "remove", "move"])
    if kind == "on":
        wb.turn_on(state.pass_)
    elif kind == "off":
        wb.turn_off(state.pass_)
    elif kind == "move":
        wb.move(state.pass_, draw.randrange(len(wb.states)))
    elif kind == "remove" and wb.edits:
        wb.remove(draw.choice(wb.edits))
    else:
        try:
            wb.edit(draw.choice(EDITS))
        except EditError:
            return  # an edit that does not hold there changes nothing, which the other laws check


@pytest.mark.parametrize("seed", range(3))
def test_acts_in_any_order_are_taken_back_one_by_one_exactly(seed: int) -> None:
    draw, wb = random.Random(seed), Workbench(small())
    for _ in range(14):
        act_at_random(wb, draw)
    steps = []
    while wb.can_undo:
        steps.append((wb.choices, fingerprint(wb.current)))
        wb.undo()
    assert wb.is_restored
    assert len(steps) > 5
    for choices, then in reversed(steps):
        wb.redo()
        assert (wb.choices, fingerprint(wb.current)) == (choices, then)
    built = Workbench(small())
    built.choose(wb.choices, wb.edits)
    assert fingerprint(built.current) == fingerprint(wb.current), "the order alone decides the graph"
    loaded = Workbench(small())
    Recipe.from_json(Recipe.of(wb).to_json()).replay(loaded)
    assert [one.name for one in loaded.order] == [one.name for one in wb.order]
    assert fingerprint(loaded.current) == fingerprint(wb.current)
