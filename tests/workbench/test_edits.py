"""Edits by hand on a workbench: one step of the history each, in any order with passes."""

from __future__ import annotations

import pytest
import torch

from fxopt import FxoptError, Workbench, fingerprint
from fxopt.core import Rewriter
from fxopt.edits import Delete, EditError, Insert, ReplaceModule, Rewire, SetArgument
from fxopt.edits.propagation import Outcome
from fxopt.workbench.preview import preview
from fxopt.workbench.site_code import site_code
from fxopt.workbench.verdicts import verdicts_of
from tests.edits.model import images, small

HALF = SetArgument("truediv", "args[1]", 2.0)


def test_an_edit_is_one_step_that_undo_takes_away_and_redo_brings_back() -> None:
    wb = Workbench(small())
    count = len(wb.passes)
    assert wb.edit(HALF) is HALF
    edited = fingerprint(wb.current)
    assert wb.edits == (HALF,)
    assert wb.passes[-1] is wb.states[0].pass_ is HALF
    assert wb.state_of(HALF).sites_on == 1
    wb.undo()
    assert wb.edits == ()
    assert len(wb.passes) == count
    assert wb.is_restored
    assert not wb.can_undo
    wb.redo()
    assert wb.edits == (HALF,)
    assert fingerprint(wb.current) == edited


def test_a_refused_edit_changes_nothing_and_says_why() -> None:
    wb = Workbench(small())
    wb.turn_on("MergeLinears")
    before, choices = fingerprint(wb.current), wb.choices
    for edit in (SetArgument("truediv", "args[1]", 3), Rewire("sub", "args[1]", "last"), Delete("nowhere")):
        with pytest.raises(EditError):
            wb.edit(edit)
        assert (fingerprint(wb.current), wb.choices, wb.edits) == (before, choices, ())
    wb.undo()
    assert not wb.can_undo
    assert wb.is_restored


class Fails(SetArgument):
    """An edit with a bug."""

    def do(self, node: torch.fx.Node, outcome: Outcome, rewriter: Rewriter) -> None:
        super().do(node, outcome, rewriter)
        raise KeyError("on purpose")


def test_an_edit_that_fails_half_way_leaves_no_trace() -> None:
    wb = Workbench(small())
    wb.edit(HALF)
    before, choices = fingerprint(wb.current), wb.choices
    with pytest.raises(FxoptError, match="on purpose"):
        wb.edit(Fails("truediv", "args[1]", 4.0))
    assert (fingerprint(wb.current), wb.choices, wb.edits) == (before, choices, (HALF,))
    assert not wb.can_redo


def test_the_same_constant_can_be_changed_again_and_back() -> None:
    wb = Workbench(small())
    for value in (2.0, 4.0, 2.0, 3):
        wb.edit(SetArgument("truediv", "args[1]", value))
    assert [edit.name for edit in wb.edits] == [
        "SetArgument(truediv, args[1], 2.0)", "SetArgument(truediv, args[1], 4.0)",
        "SetArgument(truediv, args[1], 2.0) #2", "SetArgument(truediv, args[1], 3)",
    ]  # fmt: skip
    assert torch.equal(wb.current(images()), wb.pristine(images()))
    for edit in (wb.edits[1], wb.edits[3], wb.edits[0], wb.edits[2]):
        wb.turn_off(edit)
    assert wb.is_restored


def test_an_edit_is_removed_as_one_step() -> None:
    wb = Workbench(small())
    first, second = wb.edit(HALF), wb.edit(Insert("sub", "ReLU"))
    both = fingerprint(wb.current)
    wb.remove(first)
    assert wb.edits == (second,)
    built = Workbench(small())
    built.edit(second)
    assert fingerprint(wb.current) == fingerprint(built.current)
    wb.undo()
    assert fingerprint(wb.current) == both
    with pytest.raises(FxoptError, match="MergeLinears is a pass; turn it off"):
        wb.remove("MergeLinears")
    wb.remove(second.name)
    wb.remove(first)
    assert wb.is_restored


def test_the_known_passes_keep_their_places_whatever_is_removed_or_undone() -> None:
    wb = Workbench(small())
    count = len(wb.passes)
    first, second = wb.edit(HALF), wb.edit(Insert("sub", "ReLU"))
    wb.remove(first)
    assert [wb.known.index(one) for one in wb.passes] == [*range(count), count + 1]
    wb.undo()
    wb.undo()
    assert wb.known[count:] == (first, second)
    third = wb.edit(Delete("drop", "sub"))
    assert wb.known[count:] == (first, third), "what no step knows any longer is forgotten"


def test_what_rests_on_an_edit_is_named_and_goes_with_it() -> None:
    wb = Workbench(small())
    inserted = wb.edit(Insert("sub", "ReLU"))
    on_it = wb.edit(ReplaceModule("relu_1", "Tanh"))
    assert wb.resting_on(inserted) == ((on_it.name, "relu_1"),)
    wb.turn_off(inserted)
    assert wb.state_of(on_it).sites_on == 0
    assert wb.is_restored
    wb.turn_on(inserted)
    assert wb.state_of(on_it).sites_on == 1


def test_an_edit_that_a_pass_made_impossible_says_so_where_it_stands() -> None:
    wb = Workbench(small())
    wb.turn_on("FuseBatchNorm2dInConv2d")
    with pytest.raises(EditError, match="there is no node norm"):
        wb.edit(Delete("norm", "conv"))
    wb.turn_off("FuseBatchNorm2dInConv2d")
    edit = wb.edit(Delete("norm", "conv"))
    wb.turn_on("FuseBatchNorm2dInConv2d")
    assert wb.state_of(edit).sites_on == 1
    wb.move("FuseBatchNorm2dInConv2d", 0)
    assert wb.state_of(edit).sites == ()
    wb.move(edit, 0)
    assert wb.state_of(edit).sites_on == 1
    assert wb.state_of("FuseBatchNorm2dInConv2d").sites == ()
    wb.reverse_all()
    assert wb.is_restored
    assert wb.edits == (edit,)


def test_an_edit_is_previewed_told_and_shown_as_any_pass_is() -> None:
    wb = Workbench(small())
    edit = wb.edit(Delete("drop", "sub"))
    shown = preview(wb, edit)
    assert not shown.turns_on
    assert shown.created == ("drop",)
    assert wb.story("drop") == [f"removed by hand: {edit.title}"]
    inserted = wb.edit(Insert("mean", "ReLU", "b"))
    (site,) = wb.state_of(inserted).sites
    assert (site.site, site.created, site.changed) == ("mean", ("relu_1",), ("b",))
    wb.remove(inserted)
    code = site_code(wb, edit, "drop")
    assert "self.drop(sub)" in code.before
    assert "self.last(sub)" in code.after
    assert [verdict.kind for verdict in verdicts_of(wb, "drop") if verdict.state.pass_ is edit] == ["applied"]
    assert not [verdict for verdict in verdicts_of(wb, "conv") if verdict.state.pass_ is edit]


def test_the_choices_of_another_bench_are_taken_over_with_its_edits() -> None:
    first, second = Workbench(small()), Workbench(small())
    first.edit(HALF)
    first.turn_on("MergeLinears")
    with pytest.raises(FxoptError, match="other passes"):
        second.choose(first.choices)
    second.choose(first.choices, first.edits)
    assert fingerprint(second.current) == fingerprint(first.current)
    assert second.edits == (HALF,)
    second.undo()
    assert second.is_restored


def test_a_trial_with_an_edit_leaves_the_bench_as_it_is() -> None:
    wb = Workbench(small())
    wb.edit(HALF)
    before = fingerprint(wb.current)
    trial = wb.trial(wb.with_("MergeLinears", on=True))
    trial = wb.trial(wb.with_(HALF, on=False))
    trial.recompile()
    assert fingerprint(trial) == wb.fingerprint
    assert fingerprint(wb.current) == before


def test_edits_are_checked_on_the_graph_that_passes_left() -> None:
    wb = Workbench(small())
    wb.turn_on("MergeLinears")
    edit = wb.edit(Insert("a_b_merged", "ReLU"))
    assert not edit.scan(small()).matches
    wb.turn_off("MergeLinears")
    assert wb.state_of(edit).sites_on == 0
    assert wb.is_restored
