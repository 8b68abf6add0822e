"""The time line: each act is a sentence, names its nodes, and can be gone to without losing the rest."""

from __future__ import annotations

import pytest

from fxopt import (
    ChangeTrueDivToMulByInverse,
    FuseBatchNorm2dInConv2d,
    FxoptError,
    MergeLinears,
    Workbench,
    fingerprint,
)
from fxopt.edits import Delete, Insert, ReplaceModule, SetArgument
from fxopt.workbench.comparing import between
from tests.edits.model import small

MERGE, FUSE, DIVIDE = "MergeLinears", "FuseBatchNorm2dInConv2d", "ChangeTrueDivToMulByInverse"
MERGING, FUSING, DIVIDING = (
    kind().label for kind in (MergeLinears, FuseBatchNorm2dInConv2d, ChangeTrueDivToMulByInverse)
)


def told(wb: Workbench) -> list[str]:
    return [act.sentence for act in wb.acts]


def test_every_act_is_a_sentence() -> None:
    wb = Workbench(small())
    assert told(wb) == []
    wb.turn_on(MERGE)
    wb.turn_on(DIVIDE)
    wb.turn_off(DIVIDE)
    edit = wb.edit(Insert("sub", "ReLU"))
    wb.turn_off(edit)
    wb.turn_on(edit)
    wb.remove(edit)
    wb.move(FUSE, 0)
    wb.move(FUSE, len(wb.order) - 1)
    wb.turn_on(FUSE)
    wb.reverse_all()
    site = wb.state_of(MERGE).sites[0].site
    assert told(wb) == [
        f"{MERGING} at {site}",
        f"{DIVIDING} at truediv",
        f"{DIVIDING} off",
        edit.summary,
        f"Off: {edit.title}",
        f"On again: {edit.title}",
        f"Taken away: {edit.title}",
        f"{FUSING} runs before {MERGING}",
        f"{FUSING} runs last",
        f"{FUSING} at norm",
        "Everything off",
    ]


def test_an_act_tells_the_sites_that_come_and_go_with_it() -> None:
    wb = Workbench(small())
    inserted = wb.edit(Insert("sub", "ReLU"))
    on_it = wb.edit(ReplaceModule("relu_1", "Tanh"))
    wb.turn_off(inserted)
    wb.turn_on(inserted)
    assert told(wb)[2:] == [
        f"Off: {inserted.title}; the edit “{on_it.title}” goes with it at 1 site",
        f"On again: {inserted.title}; the edit “{on_it.title}” comes with it at 1 site",
    ]
    assert wb.acts[2].went == {(inserted.name, "sub"), (on_it.name, "relu_1")}
    assert wb.acts[3].came == wb.acts[2].went


def test_an_act_names_the_nodes_that_it_made_changed_or_removed() -> None:
    wb = Workbench(small())
    wb.turn_on(FUSE)
    assert (wb.acts[0].changed, wb.acts[0].removed) == (("conv",), ("norm",))
    wb.turn_off(FUSE)
    assert (wb.acts[1].created, wb.acts[1].changed, wb.acts[1].removed) == (("norm",), ("conv",), ())


def test_choices_taken_over_at_once_are_one_act() -> None:
    first, second = Workbench(small()), Workbench(small())
    first.turn_on(FUSE)
    first.edit(SetArgument("truediv", "args[1]", 2.0))
    second.choose(first.choices, first.edits)
    assert told(second) == [f"At once: {FUSING} at norm; Set args[1] of truediv to 2.0"]


def test_any_two_states_are_compared_as_if_one_act_had_led_from_one_to_the_other() -> None:
    wb = Workbench(small())
    wb.turn_on(MERGE)
    inserted = wb.edit(Insert("sub", "ReLU"))
    wb.turn_on(FUSE)
    wb.turn_off(MERGE)
    wb.go_to(1)
    merged, there = fingerprint(wb.current), wb.choices
    both = between(wb, 1, 3)
    assert both.sentence == f"At once: {inserted.summary}; {FUSING} at norm"
    assert both.came == {(FUSE, "norm"), (inserted.name, "sub")}
    assert not both.went
    assert both.before == there
    assert between(wb, 3, 1).went == both.came
    assert between(wb, 3, 1).created == both.removed
    assert between(wb, 0, 4).came == both.came, "what came and went in between is no difference"
    assert between(wb, 4, 4).came == between(wb, 4, 4).went == frozenset()
    for done in (-1, 5):
        with pytest.raises(FxoptError, match="give 0 to 4"):
            between(wb, 0, done)
    assert (wb.acts_done, wb.choices, fingerprint(wb.current)) == (1, there, merged), "the workbench stays as it is"


def test_any_act_is_gone_to_and_the_later_ones_stay_until_a_new_one() -> None:
    wb = Workbench(small())
    states = [fingerprint(wb.current)]
    for act in (
        lambda: wb.turn_on(MERGE),
        lambda: wb.edit(Delete("drop", "sub")),
        lambda: wb.turn_on(FUSE),
        lambda: wb.turn_off(MERGE),
    ):
        act()
        states.append(fingerprint(wb.current))
    sentences = told(wb)
    for done in (1, 4, 0, 3, 2):
        wb.go_to(done)
        assert (wb.acts_done, fingerprint(wb.current), told(wb)) == (done, states[done], sentences)
        assert wb.is_restored is (done == 0)
    for done in (-1, 5):
        with pytest.raises(FxoptError, match="give 0 to 4"):
            wb.go_to(done)
    assert fingerprint(wb.current) == states[2]
    wb.turn_on(DIVIDE)
    assert told(wb) == [*sentences[:2], f"{DIVIDING} at truediv"]
    assert wb.another().acts == ()
