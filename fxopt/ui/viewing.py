"""Acts of a visitor on their view: the pass in focus, the selection, the graph shown, and the open modules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fxopt.ui.acts import alone
from fxopt.ui.session import Session, is_acting
from fxopt.ui.view_state import Shown

MORE = 20
"""The number of sites that a click on "more" adds to the list."""


def look_at(session: Session, name: str) -> None:
    """Show the sites of a pass; an empty name hides them."""
    session.view = session.view.looking_at(name)


@alone
def step_pass(session: Session, by: int, acting: bool = False) -> None:
    """Look at the next (1) or previous (-1) pass, or the next one that has a site."""
    names = [state.name for state in session.workbench.states if not acting or is_acting(state)]
    if names:
        look_at(session, beside(names, session.view.looked_at, by))


def list_more(session: Session) -> None:
    """List more sites of the pass in focus."""
    session.view = replace(session.view, listed=session.view.listed + MORE)


def select(session: Session, name: str) -> None:
    """Select a node, or a folded module as ``@path``; an empty name selects nothing."""
    session.view = replace(session.view, selected=name)


def show(session: Session, shown: Shown) -> None:
    """Show one of the two graphs."""
    session.view = replace(session.view, shown=shown)


def newest_with(session: Session, name: str) -> Shown:
    """Return the graph of which the inspector tells where both are in sight: of two boxes, the new one."""
    return "Original" if name in session.view_of("Original").by_name.keys() - session.view_of("Now").by_name else "Now"


def unfold(session: Session, paths: frozenset[str]) -> None:
    """Open these modules, and fold all others."""
    session.view = replace(session.view, unfolded=paths, revealed=frozenset())
    session.view = replace(session.view, closed=(session.workbench.choices, session.opening.modules))


def fold(session: Session, path: str) -> None:
    """Fold an open module, or open a folded one."""
    view, now = session.view, session.workbench.choices
    if path in session.open_modules:
        unfolded, revealed = view.unfolded - {path}, view.revealed - {path}
        session.view = replace(view, unfolded=unfolded, revealed=revealed, closed=(now, view.closed_at(now) | {path}))
    else:
        closed = now, view.closed_at(now) - {path}
        session.view = replace(view, unfolded=view.unfolded | {path}, closed=closed)


def beside(names: Sequence[str], name: str, by: int) -> str:
    """Return the one after `name` (1) or before it (-1), in a circle; an end of `names` if it is missing there.

    >>> beside("abc", "c", 1), beside("abc", "", -1)
    ('a', 'c')
    """
    at = names.index(name) + by if name and name in names else min(by, 0)
    return names[at % len(names)]
