"""The page below the model picker: passes, graph, inspector and evidence, and their places."""

from __future__ import annotations

import streamlit as st

from fxopt.ui.evidence_panel import evidence_panel
from fxopt.ui.graph_panel import graph_panels
from fxopt.ui.inspector import inspector_panel
from fxopt.ui.keys import keys_panel
from fxopt.ui.leaving import look_after
from fxopt.ui.panel import ALL, panel
from fxopt.ui.pass_panel import pass_panel, shown_by_passes
from fxopt.ui.session import Session


def workplace(session: Session) -> None:
    """Draw the work place. A switch in the list of passes changes all of it, and leaves the parts above alone."""
    look_after(session)
    panel(session, ALL, _panels, shown_by_passes)


def _panels(session: Session) -> None:
    passes, graph, inspected = st.columns([3, 6, 3])
    with graph:
        graph_panels(session)
    with passes.container(height=690, border=False, key="passes"):
        pass_panel(session)
    with inspected.container(height=690, border=False, key="inspected"):
        inspector_panel(session)
    evidence_panel(session)
    keys_panel(session)
