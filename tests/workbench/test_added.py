"""A pass that is added to a workbench is switched, undone and compared like those that it was given."""

from __future__ import annotations

import operator

import pytest
import torch
from torch import Tensor, nn

import fxopt
from fxopt import FxoptError, Workbench
from fxopt.lessons.needs import Needs
from fxopt.recipes import Recipe
from fxopt.writing.reading import passes_of

TEXT = """
@fxopt.rewrite
def halve(x: torch.Tensor, c: float | int):
    yield x / c
    fxopt.require(c == 2, f"the divisor is {c}")
    return x * 0.5
"""


class Halves(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x / 2 + x / 3


@pytest.fixture
def wb() -> Workbench:
    return Workbench(Halves(), (torch.ones(2, 3),))


def rule(text: str = TEXT) -> fxopt.Pass:
    (found,), fault = passes_of(text)
    assert fault is None
    return found


def test_an_added_pass_is_the_last_switched_off_and_is_switched_like_any(wb: Workbench) -> None:
    wb.add(rule())
    assert [state.name for state in wb.states][-1] == "halve"
    assert (wb.is_changed, [one.site for one in wb.state_of("halve").sites]) == (False, ["truediv"])
    assert wb.acts[-1].sentence == "Into the list: halve"
    wb.turn_on("halve")
    assert [node.target for node in wb.current.graph.nodes if node.target is operator.mul]
    wb.reverse_all()
    assert (wb.is_restored, [one.name for one in wb.added]) == (True, ["halve"])


def test_undo_takes_it_away_and_redo_brings_it_back(wb: Workbench) -> None:
    wb.add(rule())
    wb.turn_on("halve")
    wb.undo()
    wb.undo()
    assert (wb.added, wb.is_restored) == ((), True)
    wb.redo()
    wb.redo()
    assert wb.state_of("halve").sites_on == 1


def test_another_text_takes_the_place_of_the_one_before_and_undo_brings_that_back(wb: Workbench) -> None:
    wb.add(rule())
    wb.turn_on("halve")
    wb.add(rule(TEXT.replace("c == 2", "c == 3")))
    assert (wb.is_changed, [one.site for one in wb.state_of("halve").sites]) == (False, ["truediv_1"])
    wb.turn_on("halve")
    wb.add(rule(TEXT.replace("c == 2", "c == 3")))
    assert wb.is_changed, "the same text changes nothing"
    wb.undo()
    wb.undo()
    assert [(one.site, one.on) for one in wb.state_of("halve").sites] == [("truediv", True)]


def test_a_pass_of_the_name_of_a_given_one_is_refused(wb: Workbench) -> None:
    with pytest.raises(FxoptError, match="has a pass RemoveIdentities already; give the new one another name"):
        wb.add(rule(TEXT.replace("halve", "RemoveIdentities")))
    assert not wb.can_undo


def test_its_choices_are_those_of_another_workbench_too_and_a_state_without_it_is_one(wb: Workbench) -> None:
    wb.add(rule())
    wb.turn_on("halve")
    other, elsewhere = wb.another(), Workbench(Halves(), (torch.ones(2, 3),))
    other.choose(wb.choices, wb.edits)
    elsewhere.choose(wb.choices, (*wb.added, *wb.edits))
    assert other.is_changed
    assert elsewhere.is_changed
    assert [step.name for step in Recipe.of(wb).steps if step.on] == ["halve"]
    Needs("model", on={"ChangeTrueDivToMulByInverse": None}).begin(wb)
    assert (wb.added, wb.state_of("ChangeTrueDivToMulByInverse").sites_on) == ((), 2)
    wb.undo()
    assert wb.state_of("halve").sites_on == 1
