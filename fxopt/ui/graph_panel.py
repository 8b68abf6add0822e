"""The graphs in the middle of the page: their layout, and the visitor's acts in them."""

from __future__ import annotations

import time
from collections.abc import Hashable
from dataclasses import replace
from functools import partial
from typing import get_args

import streamlit as st

from fxopt.ui.ahead import first_graph_sent
from fxopt.ui.costs import chosen_costs, costs_of, drawn_costs
from fxopt.ui.editing import edit_at, edit_edge
from fxopt.ui.fault import complain
from fxopt.ui.going import go_to
from fxopt.ui.graph_bar import draw_bar, every_module, shown_by_bar
from fxopt.ui.graph_component import heard_of, obey_graph
from fxopt.ui.graph_facts import draw_facts, shown_by_facts
from fxopt.ui.graph_pane import draw_pane, look_at_end
from fxopt.ui.panel import panel
from fxopt.ui.pictures import PackedLayout, laying_out
from fxopt.ui.session import Session
from fxopt.ui.summary_line import summary_line
from fxopt.ui.turns import FIRST_DRAWINGS
from fxopt.ui.view_state import Shown
from fxopt.ui.viewing import fold, newest_with, select
from fxopt.ui.waiting import result_soon
from fxopt.view import VisibleGraph, visible
from fxopt.view.comparison import GONE

HEAD_START_SECONDS = 0.35
"""The time for which a new visitor's graph is sent alone. Streamlit's page fetches the code of a kind of element when
the first one comes, and React shows the awaited parts at the earliest 0.3 s after it last began to wait for something.
With all at once, the graph would be seen as late as the rest, and the rest no sooner (measured: `bench_page`)."""


def graph_panels(session: Session) -> None:
    """Draw the graph, the bar above it, and the facts below it."""
    above, graphs, below = st.container(gap="xxsmall"), st.container(), st.container()
    with graphs:  # first, as the centre of the page
        panel(session, "graph panel", _graphs, _shown_by_graphs)
    if "has been drawn" not in st.session_state and session.picture is not None:
        st.session_state["has been drawn"] = True
        first_graph_sent.set()
        with FIRST_DRAWINGS.aside():
            time.sleep(HEAD_START_SECONDS)
    with above:
        panel(session, "bar panel", draw_bar, shown_by_bar)
        summary_line(session)
    with below:
        panel(session, "facts panel", draw_facts, shown_by_facts)


def _obey(session: Session) -> None:
    """Apply the visitor's acts in the graphs since the last run."""
    shown = session.view.together or session.view.shown
    for key, of in (("graph", "Now" if shown == "Side by side" else shown), ("graph before", "Original")):
        select, reveal = partial(_select, session, shown=of), partial(_reveal, session, shown=of)
        toggle, knows = partial(fold, session), partial(_knows, session)
        change, change_edge = partial(edit_at, session), partial(edit_edge, session)
        complain(obey_graph(key, session.identity, select, toggle, knows, reveal, change, change_edge))


def _knows(session: Session, name: str) -> bool:
    """Return whether one of the graphs has the node `name`, or the module where it is ``@path``; '' is an empty
    selection.
    """
    if name.startswith("@"):
        return name.partition("#")[0][1:] in every_module(session)
    name = name.removesuffix(GONE)
    return not name or any(name in session.view_of(shown).by_name for shown in get_args(Shown))


def _shown_by_graphs(session: Session) -> Hashable:
    look = look_at_end(session, (session.workbench.choices, session.view.looked_at))
    return look, session.acted, heard_of("graph"), heard_of("graph before")


def _graphs(session: Session) -> None:
    """Draw one of the two graphs, both side by side, or both in one picture."""
    session.listen("graphs", _obey)
    together = session.view.together == "Side by side"
    panes = get_args(Shown) if together else (session.view.together or session.view.shown,)
    # The line about waiting has a place of its own: the graph would be built anew if something came before it.
    with st.container(gap=None):
        waiting, graphs = st.container(gap=None, key="graph waiting"), st.container()
    with waiting:
        # Streamlit keeps a line that was drawn earlier in the same run. Its place is sent as empty.
        counts = 0 if chosen_costs()[0] is None else len(get_args(Shown))
        place, *places = [st.empty() for _ in range(1 + counts)]
    with place:
        picture, is_wanted = _picture(session)
    if picture is None:
        return
    counted = []
    for place, of in zip(places, get_args(Shown)):  # both, for the line above
        with place:
            counted.append(costs_of(session, of, waiting=True))
    costs = {shown: drawn_costs(session, _graph_behind(shown), _boxes(picture, shown)) for shown in panes}
    is_whole = is_wanted and (chosen_costs()[0] is None or None not in counted)
    with graphs:
        for place, shown in zip(st.columns(2, gap="small") if together else (graphs,), panes):
            with place:
                draw_pane(session, picture, shown, *costs[shown], is_whole=is_whole)


def _visible(session: Session, shown: Shown) -> VisibleGraph:
    if shown == "Now" and not session.is_compared:
        shown = "Original"
    view, opened = session.view_of(shown), session.opened
    unfolded = session.open_modules
    if view is opened.view and unfolded == opened.blocks:
        return opened.first_picture
    return opened.once.answer(("visible", view.digest, unfolded), lambda: visible(view, unfolded))


def _picture(session: Session) -> tuple[PackedLayout | None, bool]:
    """Return the picture of both graphs and True; while it is being made, the last one, if any, and False.

    A newer one ends an older.
    """
    before, after = _visible(session, "Original"), _visible(session, "Now")
    wanted = (before.digest, after.digest)
    if session.laying_out is None or session.laying_out[0] != wanted:
        if session.laying_out is not None:
            session.laying_out[1].cancel()
        session.laying_out = wanted, laying_out(before, after)
    try:
        made = result_soon(session.laying_out[1], f"Laying out {len(before.items):,} boxes")
    except Exception:
        session.laying_out = None  # whoever tries again begins anew
        raise
    session.picture = made or session.picture
    return session.picture, made is not None


def _boxes(picture: PackedLayout, shown: str) -> VisibleGraph:
    """Return the boxes of the picture, where a name leads to the box that it has in the graph that is shown."""
    return picture.before if shown == "Original" else picture.graph


def _graph_behind(shown: str) -> Shown:
    """Return the graph whose costs a picture tells."""
    return "Original" if shown == "Original" else "Now"


def _select(session: Session, name: str, shown: str) -> None:
    """Select a node, and tell the inspector which of the two graphs it was pointed at in."""
    select(session, name.removesuffix(GONE))
    if name.endswith(GONE):
        session.view = replace(session.view, shown="Original")
    elif shown != "Diff":
        session.view = replace(session.view, shown="Original" if shown == "Original" else "Now")
    elif name and not name.startswith("@"):
        session.view = replace(session.view, shown=newest_with(session, name))


def _reveal(session: Session, name: str, shown: str) -> None:
    """Go to a node that a folded module hides."""
    _select(session, name, shown)
    go_to(session, name)
