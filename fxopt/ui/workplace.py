"""The page below the model picker: passes, graph, inspector and evidence, and their places."""

from __future__ import annotations

import streamlit as st

from fxopt.ui.evidence_panel import evidence_panel
from fxopt.ui.frame import frame_edges
from fxopt.ui.graph_panel import graph_panels
from fxopt.ui.history import history
from fxopt.ui.inspector import inspector_panel
from fxopt.ui.keys import keys_panel
from fxopt.ui.leaving import look_after
from fxopt.ui.own_rule import leave_other_models
from fxopt.ui.panel import ALL, panel
from fxopt.ui.pass_panel import pass_panel
from fxopt.ui.session import Session
from fxopt.ui.tour import tour


def workplace(session: Session) -> None:
    """Draw the work place: a panel for each part, so that an act draws those alone that it changes."""
    look_after(session)
    leave_other_models(session)
    panel(session, ALL, _panels, lambda session: None)
    frame_edges()
    tour()


def _panels(session: Session) -> None:
    passes, graph, inspected = st.columns([3, 6, 3])
    with graph.container(key="middle", gap="xsmall"):
        graph_panels(session)
    history(session)
    with passes.container(key="passes", gap="xsmall"):
        pass_panel(session)
    with inspected.container(key="inspected", gap="small"):
        inspector_panel(session)
    with st.container(key="drawer", gap=None):
        evidence_panel(session)
    keys_panel(session)
