"""The panels of the page: each is drawn again only when its content would change.

The browser draws anew everything that a run of the script sends, changed or not, at about a millisecond an element. So
every panel is a fragment of Streamlit. An act of the visitor runs only those fragments whose panels would change, in
the order in which they were drawn first; if these are not known beforehand, the whole page.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Hashable
from contextlib import nullcontext
from typing import Any

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from fxopt.ui.acts import obey
from fxopt.ui.address import awaits_step, write_address
from fxopt.ui.fault import complain, show_complaints, told_in_place
from fxopt.ui.guest import give_back_main
from fxopt.ui.session import Session
from fxopt.ui.turns import FIRST_DRAWINGS

ALL = "all panels"
"""The name of the panel around all the others, but those beside it."""
BESIDE = ("lesson panel",)
"""The panels outside of it."""
EVIDENCE = "evidence panel"
"""The panel below the graph."""

fragment, rerun = st.fragment, st.rerun
"""Names that a test without a browser replaces to draw everything: it sees of a run only the elements drawn in it."""


def panel(session: Session, name: str, draw: Callable[[Session], None], shows: Callable[[Session], Hashable]) -> None:
    """Draw a panel.

    Args:
        name: of the panel, unique on the page.
        draw: draws it.
        shows: returns all that decides its content, apart from its own widgets, as values to compare.
    """
    fragment(_drawn, key=name)(session, name, draw, shows)


def _drawn(session: Session, name: str, draw: Callable[[Session], None], shows: Callable[[Session], Hashable]) -> None:
    give_back_main()
    with session.at_work:
        try:
            _draw(session, name, draw, shows)
        except Exception:
            raise
        except BaseException:  # by which Streamlit ends a run for another act
            session.drawn.run_broke_off()
            raise


def _draw(session: Session, name: str, draw: Callable[[Session], None], shows: Callable[[Session], Hashable]) -> None:
    drawn = session.drawn
    if away := session.is_seen():
        complain(
            f"**You were away for {away / 60:.0f} minutes**, and the page put your graph away. It is back: "
            "passes, edits and lessons are as you left them. Outputs are compared anew."
        )
    if not drawn.everything:
        obey(session)
        if awaits_step():
            st.rerun()
        others = set(drawn.stale) - drawn.awaited - {name}
        if others.intersection(BESIDE) if name == ALL else others:
            rerun()  # the act here, or one that came with it, changes more than this panel
    before, drawn.everything = drawn.everything, drawn.everything or name == ALL
    failed = True
    try:
        is_first = name == ALL and ALL not in drawn.views
        with FIRST_DRAWINGS.turn() if is_first else nullcontext(), told_in_place(name):
            drawn.note(name, _shown_by(shows, weakref.ref(session)))
            draw(session)
            failed = False
    finally:
        drawn.everything = before
    if failed:
        _look_back(session, name)
    else:
        drawn.views[name] = session.view
    if not drawn.everything or name == ALL:
        write_address(session)
        show_complaints()
        if name == ALL or not drawn.awaited:
            drawn.run_ended(drew_all=name == ALL)


def _shown_by(shows: Callable[[Session], Hashable], whose: weakref.ref[Session]) -> Callable[[], Hashable]:
    """Return `shows` of a session that holds it: a circle, in which the session would wait for a collection."""

    def shown() -> Hashable:
        session = whose()
        return shows(session) if session is not None else None

    return shown


def _look_back(session: Session, name: str) -> None:
    """Restore the view state that the panel could last draw, and draw the page anew if that is another one."""
    view = session.drawn.views.get(name, session.view)
    if view != session.view:
        session.view = view
        st.rerun()


def redraw(session: Session) -> None:
    """Apply the visitor's acts, and draw the changed panels again: the callback of a widget."""
    with session.at_work:
        obey(session)
        due = _due(session)
        if _draws_page():
            due, session.drawn.awaited = [], set()
    _ask_for(due)


def work_ended(session: Session) -> None:
    """Draw evidence and lesson again, with all that changed: the end of a fragment's body that looked after work."""
    if len(_drawn_alone()) == 1:
        with session.at_work:
            due = _due(session, EVIDENCE, *BESIDE)
        _ask_for(due)
    st.rerun()  # the run is of more than that fragment, and is broken off here


def _due(session: Session, *others: str) -> list[str]:
    """Return the changed panels and, as far as they are on the page, others; a run of them is to be asked for."""
    session.drawn.run_broke_off()  # no panel of this run is drawn yet: those that are noted had no end
    due = session.drawn.due(*others)
    session.drawn.awaited = set(due)
    return due


def _ask_for(due: list[str]) -> None:
    if due:
        beside = [name for name in due if name in BESIDE]
        rerun([ALL, *beside] if ALL in due and beside else ALL if ALL in due else due)


def _draws_page() -> bool:
    """Return whether the run that has just begun draws the whole page, as an act outside of the panels asks for."""
    return get_script_run_ctx(suppress_warning=True) is not None and not _drawn_alone()


def _drawn_alone() -> list[str]:
    """Return the fragments that this run is about; none, where it draws the whole page."""
    context = get_script_run_ctx(suppress_warning=True)
    return list(context.fragment_ids_this_run or ()) if context is not None else []


def acting(session: Session, act: Callable[..., None]) -> Callable[..., None]:
    """Return `act` as the callback of a widget, after which the changed panels are drawn again."""

    @functools.wraps(act)
    def acted(*args: Any) -> None:
        act(*args)
        redraw(session)

    return acted
