"""Edits drawn from the offers of a form, among passes: the graph runs, is a replay, and comes back."""

from __future__ import annotations

import random

import pytest
from torch.fx import Node

from fxopt import Workbench
from fxopt.core import GraphIndex
from fxopt.edits import (
    Delete,
    Edit,
    EditError,
    Insert,
    ReplaceModule,
    Retarget,
    Rewire,
    SetArgument,
    SwapInputs,
    offers_at,
)
from fxopt.edits.place import places_of
from tests.examples import EXAMPLES, Example, outputs
from tests.fuzz.replay import assert_replays

VALUES = (0, 1, 2, -1, 3, 0.5, None, True, (1, -1), 2.0)


def drawn(node: Node, index: GraphIndex, draw: random.Random) -> Edit | None:
    offers, name, found = offers_at(node, index), node.name, list[Edit]()
    places = [at for at, _ in places_of(node)]
    if offers.constants:
        found.append(SetArgument(name, draw.choice(offers.constants)[0], draw.choice(VALUES)))
    if offers.targets:
        found.append(Retarget(name, draw.choice(offers.targets)))
    if offers.inputs and offers.earlier:
        found.append(Rewire(name, draw.choice(offers.inputs)[0], draw.choice(offers.earlier)))
    if len(places) > 1:
        found.append(SwapInputs(name, *draw.sample(places, 2)))
    if offers.takes:
        found.append(Delete(name, draw.choice(offers.takes)))
    if offers.inserted:
        found.append(Insert(name, draw.choice(offers.inserted), draw.choice(("", *offers.users))))
    if offers.replacements:
        found.append(ReplaceModule(name, draw.choice(offers.replacements)))
    return draw.choice(found) if found else None


def walk(example: Example, seed: int, steps: int) -> int:
    """Gives how many edits were made."""
    draw, made = random.Random(f"{example.name} {seed}"), 0
    wb = Workbench(example.graph())
    for _ in range(steps):
        index = GraphIndex(wb.current)
        edit = drawn(index.nodes[draw.choice(list(index.nodes))], index, draw)
        act = draw.choice(["edit", "edit", "edit", "switch", "back"])
        if act == "edit" and edit is not None:
            before = wb.choices
            try:
                wb.edit(edit)
            except EditError:
                assert wb.choices == before, "a refused edit changes nothing"
            else:
                made += 1
                outputs(wb.current, example.inputs())  # an edit that passed the check runs
        elif act == "switch":
            draw.choice([wb.turn_on, wb.turn_off])(draw.choice(wb.passes))
        else:
            draw.choice([wb.undo, wb.redo])()
        assert_replays(wb.pristine, wb.current)
    wb.reverse_all()
    assert wb.is_restored
    return made


@pytest.mark.parametrize("example", EXAMPLES[::6], ids=lambda example: example.name)
def test_drawn_edits_run_and_come_back(example: Example) -> None:
    assert walk(example, seed=0, steps=10) > 0


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_many_drawn_edits_run_and_come_back(example: Example) -> None:
    assert sum(walk(example, seed, steps=20) for seed in range(2)) > 0
