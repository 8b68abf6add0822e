"""The evidence below the graph: the worth of a change, one tab a question. Only the open tab is computed."""

from __future__ import annotations

from collections.abc import Hashable

import streamlit as st

from fxopt.ui.code_tab import CODE
from fxopt.ui.cost_tab import COST
from fxopt.ui.fault import MOST_TOLD, complain
from fxopt.ui.latency_tab import LATENCY
from fxopt.ui.markdown import escaped
from fxopt.ui.nodes_tab import NODES
from fxopt.ui.numerics_tab import NUMERICS
from fxopt.ui.panel import EVIDENCE, acting, panel
from fxopt.ui.parameters_tab import PARAMETERS
from fxopt.ui.rule_tab import RULE
from fxopt.ui.session import Session
from fxopt.ui.timeline_tab import TIMELINE

TABS = (PARAMETERS, NUMERICS, LATENCY, COST, CODE, NODES, TIMELINE, RULE)


def evidence_panel(session: Session) -> None:
    """Draw the tabs, and the content of the open one."""
    panel(session, EVIDENCE, _tabs, _shown_by_open_tab)


def _shown_by_open_tab(session: Session) -> Hashable:
    name = st.session_state.get("evidence")
    tab = next((one for one in TABS if one.name == name), TABS[0])
    return tab.name, tab.shows(session)


def _tabs(session: Session) -> None:
    asked = st.session_state.get("evidence", TABS[0].name)
    if asked not in [tab.name for tab in TABS]:  # as an address may ask
        complain(f"The address asks for a tab that is not here: {escaped(str(asked)[:MOST_TOLD])}")
        del st.session_state["evidence"]
    opened = acting(session, lambda: None)  # the panels that depend on the open tab are drawn with this one
    for place, tab in zip(st.tabs([tab.name for tab in TABS], key="evidence", on_change=opened), TABS):
        if place.open:
            with place:
                tab.draw(session)
