"""Edits by hand from the graph itself: the menu of a node or an edge, the key Delete, an edge's end that is dragged.

The form of edits checks, shows and refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from fxopt.core import FxoptError
from fxopt.edits import Delete, Rewire
from fxopt.ui.acts import edit
from fxopt.ui.edit_form import offered, offered_acts
from fxopt.ui.outcomes import EditOutcome
from fxopt.ui.session import Session
from fxopt.ui.viewing import select

FORMS = {
    "insert": "Insert a module behind it",
    "target": "Call something else",
    "module": "Call another module",
    "constants": "Change its constants",
    "rewire": "Rewire its inputs",
    "swap": "Swap two arguments",
    "delete": "Delete it",
}
"""The titles of the acts of the form by their names in the menu (`component/menu.js`)."""


class NoSuchEditError(FxoptError, ValueError):
    """An edit that makes no sense at a node."""


def edit_at(session: Session, what: str, name: str) -> None:
    """Obey the menu of a node: delete the node, or open the form at the act."""
    _at(session, what, name)
    _tell_where_it_is_seen(session)


def _at(session: Session, what: str, name: str) -> None:
    if what not in FORMS:
        return
    _open_form(session, name)
    found, acts = offered(session, name), offered_acts(session, name)
    if found is None or FORMS[what] not in acts:
        told = f"{name} cannot take this edit ({FORMS[what].lower()})"
        remedy = f"what can be done at it: {', '.join(acts).lower()}" if acts else "choose another node"
        if found is None:
            told, remedy = f"{name} is in the original graph only", "edit the graph as it is now"
        session.outcome_of_edit = EditOutcome(name, (), NoSuchEditError(f"{told}; {remedy}."))
    elif what == "delete":
        _delete(session, name, found[1].takes[0])
    else:
        st.session_state[f"edit act {name}"] = FORMS[what]


def edit_edge(session: Session, what: str, names: Sequence[str]) -> None:
    """Obey an act on an edge, given the names of its source, its target, and the node that an end was dragged to.

    `insert` and `connect` open the form; `source` and `target` are the end that was dragged, and rewire.
    """
    _at_edge(session, what, names)
    _tell_where_it_is_seen(session)


def _tell_where_it_is_seen(session: Session) -> None:
    if session.outcome_of_edit is not None:
        session.outcome_of_edit = replace(session.outcome_of_edit, from_graph=True)


def _at_edge(session: Session, what: str, names: Sequence[str]) -> None:
    if len(names) != {"insert": 2, "connect": 2, "source": 3, "target": 3}.get(what):
        return  # no page of ours sends this
    source, target, *others = names
    read = _places_of(session, target, source)
    if not read:
        told = f"{target} does not read {source} in the graph as it is now"
        _refuse(session, target, f"{told}; choose an edge in the view Now.")
    elif what == "insert":
        _at(session, "insert", source)
        found = offered(session, source)
        if found is not None and len(found[1].users) > 1:
            st.session_state[f"insert into {source} {found[1].users}"] = target
    elif what == "connect":
        _at(session, "rewire", target)
    elif what == "source":
        _rewire(session, target, read, others[0])
    elif what == "target":
        _read_by(session, source, others[0])


def _places_of(session: Session, name: str, source: str = "") -> tuple[str, ...]:
    """Return the places at which a node reads `source`, or any node where that is empty, in the graph as it is now."""
    found = offered(session, name)
    inputs = found[1].inputs if found is not None else ()
    return tuple(at for at, one in inputs if source in ("", one))


def _read_by(session: Session, source: str, name: str) -> None:
    """Let a node read `source`. With several inputs, the visitor says in the form which one it replaces."""
    places = _places_of(session, name)
    if len(places) == 1:
        _rewire(session, name, places, source)
    elif places:
        _at(session, "rewire", name)
        told = f"{name} has {len(places)} inputs, and {source} can take the place of any"
        session.outcome_of_edit = EditOutcome(
            name, (), NoSuchEditError(f"{told}; choose it in the input that it replaces.")
        )
    else:
        _refuse(session, name, f"{name} has no input that could read {source}; choose a node that makes a call.")


def _rewire(session: Session, name: str, places: Sequence[str], new: str) -> None:
    _open_form(session, name)
    edit(session, name, lambda: [Rewire(name, at, new) for at in places])
    st.session_state[f"edit act {name}"] = FORMS["rewire"]


def _open_form(session: Session, name: str) -> None:
    select(session, name)
    st.session_state["edit form"] = True
    session.outcome_of_edit = None


def _refuse(session: Session, name: str, told: str) -> None:
    _open_form(session, name)
    session.outcome_of_edit = EditOutcome(name, (), NoSuchEditError(told))


def _delete(session: Session, name: str, take: str) -> None:
    """Delete a node; its users read its input `take`. Go on there."""
    edit(session, name, lambda: [Delete(name, take)])
    done = session.outcome_of_edit
    if done is not None and done.refusal is None:
        session.outcome_of_edit = EditOutcome(take, done.made)
        select(session, take)
    else:
        st.session_state[f"edit act {name}"] = FORMS["delete"]
