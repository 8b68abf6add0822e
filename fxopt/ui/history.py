"""Undo, redo, and the state of the whole: the part of the bar that belongs to the open model."""

from __future__ import annotations

from collections.abc import Hashable

import streamlit as st

from fxopt.ui.acts import redo, reverse_all, undo
from fxopt.ui.glossary import GLOSSARY
from fxopt.ui.markdown import counted
from fxopt.ui.panel import acting, panel
from fxopt.ui.recipe_form import recipe_form
from fxopt.ui.session import Session


def history(session: Session) -> None:
    panel(session, "history panel", _draw, _shown)


def _shown(session: Session) -> Hashable:
    bench = session.workbench
    return bench.choices, bench.can_undo, bench.can_redo, session.outcome_of_recipe


def _draw(session: Session) -> None:
    """Draw the buttons that go back and forth, the badge of the state, and the form of recipes."""
    bench = session.workbench
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", key="history"):
        for label, keys, act, possible in (
            ("Undo", "Ctrl+Z", undo, bench.can_undo),
            ("Redo", "Ctrl+Y", redo, bench.can_redo),
        ):
            st.button(
                label,
                icon=f":material/{label.lower()}:",
                key=f"icon {label.lower()}",
                help=f"{label} the last switch or edit ({keys})",
                on_click=acting(session, act),
                args=(session,),
                disabled=not possible,
            )
        st.button(
            "Reverse all",
            key="reverse all",
            help="Switch every pass and edit off",
            on_click=acting(session, reverse_all),
            args=(session,),
            disabled=not any(state.on for state in bench.states),
        )
        _badge(session)
        recipe_form(session)


def _badge(session: Session) -> None:
    bench = session.workbench
    if bench.is_changed:
        text = f"{counted(sum(state.sites_on for state in bench.states), 'site')} on"
        st.badge(text, color="primary", help=f"Rewritten in the graph as it is now. {GLOSSARY['site']}")
        return
    told = f"The fingerprint of graph, modules, weights and code is {bench.fingerprint}"
    if not session.is_restored:
        st.badge("not the original", icon=":material/error:", color="red", help=f"{told} no longer")
    elif session.was_changed:
        st.badge("restored, bit for bit", icon=":material/check:", color="green", help=f"{told} again")
    else:
        st.badge("original", color="gray", help=told)
