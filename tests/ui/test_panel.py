"""Panels are drawn again where they would show something else, and left alone where not."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import streamlit as st

from fxopt.lessons.facts import TABS as LESSON_TABS
from fxopt.models import ZOO
from fxopt.ui import fault, panel
from fxopt.ui.acts import turn
from fxopt.ui.evidence_panel import TABS, _shown_by_open_tab
from fxopt.ui.numerics_tab import ask_to_compare
from fxopt.ui.open_model import captured
from fxopt.ui.panel import ALL, BESIDE, EVIDENCE, acting, redraw, work_ended
from fxopt.ui.session import Session
from fxopt.ui.viewing import look_at, select, show


class WholePageError(Exception):
    """Streamlit's rerun: nothing after it is done."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The panels asked to be drawn again; ``"page"`` for the whole page."""
    asked: list[Any] = []

    def rerun(panels: Any = "page") -> None:
        asked.append(panels)
        if panels == "page":
            raise WholePageError

    monkeypatch.setattr(panel, "rerun", rerun)
    return asked


@pytest.fixture
def session() -> Session:
    return Session(captured(ZOO[0].key, "", 2, None, ZOO[0]))


def draw(session: Session, name: str, shows: Callable[[Session], str], inner: Callable[[Session], None]) -> None:
    panel._drawn(session, name, inner, shows)


def the_page(session: Session) -> list[str]:
    """A page of three panels; says which were drawn."""
    drawn: list[str] = []

    def both(session: Session) -> None:
        drawn.append(ALL)
        draw(
            session,
            "graph",
            lambda session: session.view.selected + session.view.shown,
            lambda _: drawn.append("graph"),
        )
        draw(session, "inspected", lambda session: session.view.selected, lambda _: drawn.append("inspected"))

    draw(session, ALL, lambda session: session.view.looked_at, both)
    return drawn


def test_the_page_draws_every_panel_once_and_asks_for_nothing(session: Session, asked: list[Any]) -> None:
    assert the_page(session) == [ALL, "graph", "inspected"]
    assert not session.drawn.stale
    assert not session.drawn.everything
    redraw(session)
    assert not asked


def test_only_panels_that_would_show_something_else_are_drawn_again(session: Session, asked: list[Any]) -> None:
    the_page(session)
    acting(session, partial(select, session))("stem_conv")
    acting(session, partial(show, session))("Original")
    assert asked == [["graph", "inspected"], ["graph", "inspected"]]
    the_page(session)
    acting(session, partial(show, session))("Now")
    assert asked[2:] == [["graph"]]


def test_the_panel_around_all_is_drawn_in_place_of_those_in_it(session: Session, asked: list[Any]) -> None:
    the_page(session)
    select(session, "stem_conv")
    acting(session, partial(look_at, session))("MergeLinears")
    assert asked == [ALL]


def test_a_panel_that_runs_alone_asks_for_the_page_where_more_has_changed(session: Session, asked: list[Any]) -> None:
    """An act that came with the click of the run may change others as well."""
    the_page(session)
    show(session, "Original")
    drawn: list[str] = []
    with pytest.raises(WholePageError):
        draw(session, "inspected", lambda session: session.view.selected, lambda _: drawn.append("inspected"))
    assert not drawn
    draw(session, "graph", lambda session: session.view.selected + session.view.shown, lambda _: drawn.append("graph"))
    draw(session, "inspected", lambda session: session.view.selected, lambda _: drawn.append("inspected"))
    assert drawn == ["graph", "inspected"]
    assert asked == ["page"]


def test_panels_that_run_together_wait_for_each_other(session: Session, asked: list[Any]) -> None:
    the_page(session)
    acting(session, partial(select, session))("stem_conv")
    drawn: list[str] = []
    draw(session, "graph", lambda session: session.view.selected, lambda _: drawn.append("graph"))
    draw(session, "inspected", lambda session: session.view.selected, lambda _: drawn.append("inspected"))
    assert drawn == ["graph", "inspected"]
    assert asked == [["graph", "inspected"]]


def test_at_the_end_of_work_evidence_and_lesson_are_drawn_with_all_that_changed(
    session: Session, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = WholePageError("page")

    def whole_page() -> None:
        raise page

    monkeypatch.setattr(st, "rerun", whole_page)
    the_page(session)
    for name in (EVIDENCE, *BESIDE):
        draw(session, name, lambda session: "", lambda _: None)
    select(session, "stem_conv")
    monkeypatch.setattr(panel, "get_script_run_ctx", lambda **_: SimpleNamespace(fragment_ids_this_run=["the line"]))
    with pytest.raises(WholePageError):  # by the keyed rerun; here it returns
        work_ended(session)
    assert asked == [["graph", "inspected", EVIDENCE, *BESIDE]]
    assert session.drawn.awaited == {"graph", "inspected", EVIDENCE, *BESIDE}
    for fragments in (["the line", "another"], None):
        monkeypatch.setattr(
            panel, "get_script_run_ctx", lambda found=fragments, **_: SimpleNamespace(fragment_ids_this_run=found)
        )
        with pytest.raises(WholePageError):
            work_ended(session)
    assert len(asked) == 1, "a run of more would be broken off, and the rest of it lost"


class BreakOff(BaseException):
    """Streamlit's end of a run for another act."""


def test_panels_of_a_run_that_another_act_broke_off_are_drawn_again(session: Session, asked: list[Any]) -> None:
    """At the end of a run the browser clears the rest of panels that became shorter; not where the run broke off."""
    the_page(session)
    acting(session, partial(select, session))("stem_conv")

    def broken(session: Session) -> None:
        raise BreakOff

    draw(session, "graph", lambda session: session.view.selected, lambda _: None)
    with pytest.raises(BreakOff):
        draw(session, "inspected", lambda session: session.view.selected, broken)
    assert session.drawn.stale == ["graph", "inspected"]
    redraw(session)
    assert asked[1:] == [["graph", "inspected"]]
    draw(session, "graph", lambda session: session.view.selected, lambda _: None)
    draw(session, "inspected", lambda session: session.view.selected, lambda _: None)
    assert not session.drawn.stale


def test_a_run_that_broke_off_between_two_panels_is_drawn_again_with_the_next_act(
    session: Session, asked: list[Any]
) -> None:
    the_page(session)
    acting(session, partial(select, session))("stem_conv")
    draw(session, "graph", lambda session: session.view.selected, lambda _: None)
    acting(session, partial(select, session))("stem_conv")  # before the other panel is drawn
    assert asked == [["graph", "inspected"], ["graph", "inspected"]]


def test_a_run_that_broke_off_at_its_messages_is_drawn_again(
    session: Session, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    the_page(session)

    def broken() -> None:
        raise BreakOff

    monkeypatch.setattr(panel, "show_complaints", broken)
    with pytest.raises(BreakOff):
        draw(session, "graph", lambda session: session.view.selected, lambda _: None)
    assert session.drawn.stale == ["graph"]


def test_an_act_that_is_heard_as_the_whole_page_is_drawn_asks_for_no_panels(
    session: Session, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a model is picked just after a click in a panel: the page would not open it."""
    the_page(session)
    monkeypatch.setattr(panel, "get_script_run_ctx", lambda **_: SimpleNamespace(fragment_ids_this_run=None))
    acting(session, partial(select, session))("stem_conv")
    assert not asked
    monkeypatch.setattr(panel, "get_script_run_ctx", lambda **_: SimpleNamespace(fragment_ids_this_run=["graph"]))
    acting(session, partial(select, session))("stem_relu")
    assert asked == [["graph", "inspected"]]


def test_a_panel_that_is_gone_is_not_waited_for_after_a_run_that_broke_off(session: Session, asked: list[Any]) -> None:
    the_page(session)

    def broken(session: Session) -> None:
        raise BreakOff

    with pytest.raises(BreakOff):
        draw(session, "for a while", lambda session: "", broken)
    assert session.drawn.stale == ["for a while"]
    the_page(session)
    assert not session.drawn.stale
    assert not asked


def test_what_the_visitor_did_is_done_before_a_panel_is_drawn_alone(session: Session, asked: list[Any]) -> None:
    the_page(session)
    session.listen("graph", lambda session: select(session, "stem_relu"))
    seen: list[str] = []
    with pytest.raises(WholePageError):
        draw(
            session,
            "inspected",
            lambda session: session.view.selected,
            lambda session: seen.append(session.view.selected),
        )
    assert session.view.selected == "stem_relu"
    assert not seen


def test_a_panel_that_fails_is_a_message_and_leaves_the_others_to_be_drawn_alone(
    session: Session, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(fault.st, "error", lambda text, **_: said.append(text))

    def fails(session: Session) -> None:
        raise ZeroDivisionError

    draw(session, ALL, lambda session: session.view.looked_at, fails)
    assert len(said) == 1
    assert "ZeroDivisionError" in said[0]
    assert not session.drawn.everything


def test_the_open_tab_alone_decides_when_the_evidence_is_drawn_again(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown_by(tab: str) -> Hashable:
        monkeypatch.setattr(st, "session_state", {"evidence": tab} if tab else {})
        return _shown_by_open_tab(session)

    before = {tab.name: shown_by(tab.name) for tab in TABS}
    assert shown_by("") == before["Parameters"], "the first tab is open until another is chosen"
    select(session, "stem_conv")
    assert {name for name, shown in before.items() if shown_by(name) != shown} == {"Nodes"}
    ask_to_compare(session)
    assert {name for name, shown in before.items() if shown_by(name) != shown} == {"Nodes", "Numerics"}
    turn(session, "FuseBatchNorm2dInConv2d", None, on=True)
    assert all(shown_by(name) != shown for name, shown in before.items())


def test_a_lesson_may_name_every_tab_of_the_page() -> None:
    assert tuple(tab.name for tab in TABS) == LESSON_TABS
