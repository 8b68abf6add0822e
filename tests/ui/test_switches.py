"""Switches keep a name that the browser can tell, whichever of them stands there."""

from __future__ import annotations

import re

import pytest
import streamlit as st

from fxopt.ui.switches import Switches, as_class, widget_of


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """Streamlit's state of the widgets."""
    state: dict[str, object] = {}
    monkeypatch.setattr(st, "session_state", state)
    return state


def without_number(key: str) -> str:
    """As foreseen.js has it."""
    return re.sub(r"^\d+-", "", as_class(key))


@pytest.mark.parametrize(
    "place", ["", "linear_3", "all *.operator.truediv", "all *.operator.truediv (2)", "all 3-layers"]
)
def test_a_switch_that_takes_the_place_of_another_has_its_name_and_a_number(
    page: dict[str, object], place: str
) -> None:
    switches, widget = Switches(), widget_of("MergeLinears", place)
    first = switches.place(widget, "MergeLinears", None, False)
    page[first.key] = False
    second = switches.place(widget, "MergeLinears", None, True)
    assert first.key == widget
    assert second.key != first.key
    assert second.first
    assert without_number(first.key) == without_number(second.key) == as_class(widget)


def test_two_families_at_one_place_have_switches_of_their_own_names(page: dict[str, object]) -> None:
    switches = Switches()
    keys = []
    for place in ("all *.operator.truediv", "all *.operator.truediv (2)"):
        for on in (False, True):
            keys.append(switches.place(widget_of("A", place), "A", None, on).key)
            page[keys[-1]] = on
    assert len({*keys}) == 4
    assert len({without_number(key) for key in keys}) == 2


def test_only_what_the_visitor_moved_is_told_and_once(page: dict[str, object]) -> None:
    switches = Switches()
    a, b = (switches.place(widget_of(name), name, None, False) for name in "AB")
    page |= {a.key: False, b.key: True}
    assert [switch.pass_name for switch in switches.moved()] == ["B"]
    assert not [*switches.moved()]
    assert b.place
