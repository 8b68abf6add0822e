"""The visitor's acts in the list of passes: each is obeyed once, in their order; one that comes too late is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import streamlit as st

from fxopt.edits import Edit
from fxopt.passes import APPROXIMATE_PASSES, PackConvolutions, PackLinears
from fxopt.ui.acts import answer, move, remove, turn
from fxopt.ui.events import Heard, news, sent_by
from fxopt.ui.fault import complain
from fxopt.ui.going import go_to_site
from fxopt.ui.pass_list import standing_in
from fxopt.ui.presence import presence
from fxopt.ui.session import Session
from fxopt.ui.site_list import families_in
from fxopt.ui.switches import place_of_copies, widget_of
from fxopt.ui.viewing import list_more, look_at, select
from fxopt.workbench import PassState, Sites

KEY = "pass list"


def heard_in_list() -> Heard:
    """Return the record of the acts in the list that were obeyed."""
    heard: Heard = st.session_state.setdefault(f"heard of {KEY}", Heard())
    return heard


def obey_list(session: Session) -> None:
    """Apply the acts in the list since the last run."""
    complain(act(session, heard_in_list(), sent_by(KEY, "acts"), presence(grace=0)))


def act(session: Session, heard: Heard, message: Any, is_here: Callable[[], bool] = lambda: True) -> str:
    """Apply the unheard acts in a message, ``[number, kind, about]``, for as long as the visitor `is_here`.

    Kinds are "on" and "off", about a switch as the list names it; those of `_ON_PASSES`, about the letter of a pass;
    and those of `_OTHERS`.

    Returns:
        the complaint about refused acts; empty if all were applied.
    """
    told = news(message, heard.number, session.identity)
    for number, kind, about in told.acts:
        if not is_here():
            return ""
        heard.number = number
        if kind in ("on", "off"):
            _switch(session, about, on=kind == "on")
        elif kind in _ON_PASSES and (state := _state_of(session, about)):
            _ON_PASSES[kind](session, state)
        elif kind in _OTHERS:
            _OTHERS[kind](session, about)
    return heard.end(told)


def _switch(session: Session, about: str, *, on: bool) -> None:
    session.acted += 1  # also where it comes too late: the browser may be ahead
    letter, _, place = about.partition(" ")
    state = _state_of(session, letter)
    if state is None:
        return
    known: dict[str, Sites] = {"": None}
    if place:
        for family in families_in(session, state):
            known |= {place_of_copies(family): family.names, **{name: name for name in family.names}}
    if place in known:
        turn(session, state.name, known[place], on, widget=widget_of(state.name, place))


def _state_of(session: Session, letter: str) -> PassState | None:
    """Return the pass or edit with a letter; None where another act has taken it away meanwhile."""
    styles = session.styles
    return next((state for state in session.workbench.states if styles[state.name].letter == letter), None)


def _show_node(session: Session, state: PassState) -> None:
    """Select the node of an edit, or the one at which a pass has failed."""
    node = state.pass_.node if isinstance(state.pass_, Edit) else state.failed_at
    if node:
        select(session, node)


def _remove(session: Session, state: PassState) -> None:
    if isinstance(state.pass_, Edit):
        remove(session, state.name)


def _behind_the_edits(session: Session, state: PassState) -> None:
    standing = standing_in(session, state)
    if standing is not None:
        move(session, state.name, standing.behind - session.workbench.states.index(state))


def _go(session: Session, site: str) -> None:
    if site in session.looked_at_places:
        go_to_site(session, site)


def _answer(session: Session, about: str) -> None:
    """Answer the question that is named, where it is still the one that is asked: "name yes", "name no"."""
    name, _, said = about.partition(" ")
    question = session.view.question
    if question is not None and question.name == name:
        answer(session, said == "yes")


_PACKING = {PackLinears.__name__, PackConvolutions.__name__}


def _add(session: Session, name: str) -> None:
    """Put an approximate pass into the list, off at first, and look at it."""
    kind = next((one for one in APPROXIMATE_PASSES if one.__name__ == name), None)
    if kind is not None:
        names = [state.name for state in session.workbench.states]
        packs = [i for i, one in enumerate(names) if one in _PACKING]  # what they packed, it would not find
        session.workbench.add(kind(), to=min(packs, default=None))
        look_at(session, name)


def _list_copies(session: Session, place: str) -> None:
    """List each site of a family of the pass in focus, or no longer."""
    state = session.looked_at_state
    if state is not None and any(family.place == place for family in families_in(session, state)):
        session.view = replace(session.view, copies=session.view.copies ^ {place})


_ON_PASSES: dict[str, Callable[[Session, PassState], None]] = {
    "look": lambda session, state: look_at(session, state.name),
    "earlier": lambda session, state: move(session, state.name, -1),
    "later": lambda session, state: move(session, state.name, 1),
    "behind": _behind_the_edits,
    "show": _show_node,
    "remove": _remove,
}
_OTHERS: dict[str, Callable[[Session, str], None]] = {
    "close": lambda session, _: look_at(session, ""),
    "go": _go,
    "copies": _list_copies,
    "more": lambda session, _: list_more(session),
    "answer": _answer,
    "add": _add,
}
