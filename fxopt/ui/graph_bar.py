"""The bar above the graph: which graph is shown, its folding, and the door to its files."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from functools import partial
from typing import get_args

import streamlit as st

from fxopt.ui.downloads import downloads
from fxopt.ui.panel import acting
from fxopt.ui.session import Session
from fxopt.ui.view_state import Shown, Together
from fxopt.ui.viewing import newest_with, unfold

VIEWS = (*get_args(Shown), *get_args(Together))


def every_module(session: Session) -> frozenset[str]:
    """Return every module that can be opened."""
    return frozenset(session.view_of("Original").module_classes) | frozenset(session.view_of("Now").module_classes)


def shown_by_bar(session: Session) -> Hashable:
    return session.view.shown, session.view.together, session.open_modules, every_module(session)


def draw_bar(session: Session) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="graph bar"):
        chosen = session.view.together or session.view.shown
        if st.session_state.get("shown") != chosen:
            st.session_state["shown"] = chosen
        st.segmented_control(
            "Which graph",
            VIEWS,
            key="shown",
            label_visibility="collapsed",
            required=True,
            on_change=acting(session, partial(_show, session)),
        )
        with st.container(horizontal=True, width="content", gap="small"):
            _folding(session)


def _folding(session: Session) -> None:
    for label, unfolded, told in (
        ("Fold", frozenset[str](), "Fold every module into one box"),
        ("Overview", session.opened.blocks, "Open as many modules as fit a first look"),
        ("Unfold", every_module(session), "Open every module"),
    ):
        st.button(
            label,
            key=f"fold: {label}",
            help=told,
            disabled=unfolded == session.open_modules,
            on_click=acting(session, partial(unfold, session, unfolded)),
        )
    files = st.popover("Save", key="save", help="The graph as a file", on_change="rerun")
    if files.open:
        with files:
            downloads(session)


def _show(session: Session) -> None:
    chosen = st.session_state["shown"]
    if chosen in get_args(Together):
        session.view = replace(session.view, together=chosen)
        session.view = replace(session.view, shown=newest_with(session, session.view.selected))
    elif chosen in get_args(Shown):  # after a run in which it was absent, Streamlit has None there
        session.view = replace(session.view, shown=chosen, together=None, compared=None)
