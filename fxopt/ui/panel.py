"""The panels of the page: each is drawn again only where it would show something else than it does.

What a run of the script sends, the browser draws anew, whether it changed or not, at about a millisecond an element.
So every panel is a fragment of Streamlit. What a visitor does runs those fragments alone whose panels would change, in
the order in which they were drawn first; where that is not known beforehand, the whole page.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Hashable
from contextlib import nullcontext
from typing import Any

import streamlit as st

from fxopt.ui.fault import look_back, look_of, show_complaints, told_in_place
from fxopt.ui.session import Session
from fxopt.ui.turns import FIRST_DRAWINGS

ALL = "all panels"
"""The name of the panel around all the others."""

fragment, rerun = st.fragment, st.rerun
"""By these names, so that a test without a browser, which sees of a run only what it draws, can let all be drawn."""


def panel(session: Session, name: str, draw: Callable[[Session], None], shows: Callable[[Session], Hashable]) -> None:
    """Draw a panel.

    Args:
        name: of the panel; no other one on the page has it.
        draw: draws it.
        shows: gives everything that decides what it shows, but for what widgets in it say, as values to compare.
    """
    fragment(_drawn, key=name)(session, name, draw, shows)


def _drawn(session: Session, name: str, draw: Callable[[Session], None], shows: Callable[[Session], Hashable]) -> None:
    drawn = session.drawn
    with session.at_work:
        if not drawn.everything:
            session.obey()
            if name != ALL and set(drawn.stale) - drawn.awaited - {name}:
                rerun()  # what was done here, or came together with it, changes more than this panel
        before, drawn.everything = drawn.everything, drawn.everything or name == ALL
        failed = True
        try:
            is_first = name == ALL and ALL not in drawn.looks
            with FIRST_DRAWINGS.turn() if is_first else nullcontext(), told_in_place(name):
                drawn.note(name, _shown_by(shows, weakref.ref(session)))
                draw(session)
                failed = False
        finally:
            drawn.everything = before
        if failed:
            _look_back(session, name)
        else:
            drawn.looks[name] = look_of(session)
        if not drawn.everything or name == ALL:
            show_complaints()


def _shown_by(shows: Callable[[Session], Hashable], whose: weakref.ref[Session]) -> Callable[[], Hashable]:
    """Return `shows` of a session that holds it: a circle, in which the session would wait for a collection."""

    def shown() -> Hashable:
        session = whose()
        return shows(session) if session is not None else None

    return shown


def _look_back(session: Session, name: str) -> None:
    """Let the visitor look at what the panel could show, and draw the page anew where that is something else."""
    look = session.drawn.looks.get(name)
    if look is not None and look_back(session, look):
        st.rerun()


def redraw(session: Session) -> None:
    """As the callback of a widget: do what the visitor did, and draw the panels again that then show something else."""
    with session.at_work:
        session.obey()
        stale = session.drawn.stale
        session.drawn.awaited = set(stale)
    if stale:
        rerun(ALL if ALL in stale else stale)


def acting(session: Session, act: Callable[..., None]) -> Callable[..., None]:
    """`act` as the callback of a widget, after which those panels are drawn again that then show something else."""

    @functools.wraps(act)
    def acted(*args: Any) -> None:
        act(*args)
        redraw(session)

    return acted
