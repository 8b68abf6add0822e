"""The evidence below the graph: the worth of a change, one tab a question. Only the open tab is computed."""

from __future__ import annotations

from collections.abc import Hashable

import streamlit as st

from fxopt.ui.code_tab import code_tab
from fxopt.ui.costs import chosen_costs
from fxopt.ui.latency_tab import latency_tab
from fxopt.ui.nodes_tab import nodes_tab
from fxopt.ui.numerics_tab import numerics_tab
from fxopt.ui.panel import panel
from fxopt.ui.parameters_tab import parameters_tab
from fxopt.ui.session import Session

TABS = {
    "Parameters": parameters_tab,
    "Numerics": numerics_tab,
    "Latency": latency_tab,
    "Code": code_tab,
    "Nodes": nodes_tab,
}


def evidence_panel(session: Session) -> None:
    """Draw the tabs, and the content of the open one."""
    panel(session, "evidence panel", _tabs, _shown_by_tabs)


def _shown_by_tabs(session: Session) -> Hashable:
    is_table = st.session_state.get("evidence") == "Nodes"
    selected = (session.selected, session.shown, chosen_costs()) if is_table else None
    return session.workbench.choices, session.compared, session.measurement, selected


def _tabs(session: Session) -> None:
    for tab, draw in zip(st.tabs(list(TABS), key="evidence", on_change="rerun"), TABS.values()):
        if tab.open:
            with tab:
                draw(session)
