"""What is below the picker of models: the passes, the graph, the inspector and the evidence, where each stands."""

from __future__ import annotations

import time

import streamlit as st

from fxopt.ui.evidence_panel import evidence_panel
from fxopt.ui.graph_panel import graph_panels
from fxopt.ui.inspector import inspector_panel
from fxopt.ui.keys import keys_panel
from fxopt.ui.panel import ALL, panel
from fxopt.ui.pass_panel import pass_panel, shown_by_passes
from fxopt.ui.session import Session

HEAD_START_SECONDS = 0.25
"""So long a new visitor's graph is on its way alone. Streamlit's page fetches what draws a kind of element when the
first one comes, and React shows what was waited for not sooner than 0.3 s after it last began to wait for something.
With all at once, the graph would be seen as late as the rest, and the rest no sooner (measured: `bench_page`)."""


def workplace(session: Session) -> None:
    """Draw it. What is switched in the list of passes changes all of it, and nothing above."""
    panel(session, ALL, _panels, shown_by_passes)


def _panels(session: Session) -> None:
    passes, graph, inspected = st.columns([3, 6, 3])
    with graph:
        graph_panels(session)
    if "has been drawn" not in st.session_state and session.picture is not None:
        st.session_state["has been drawn"] = True
        time.sleep(HEAD_START_SECONDS)
    with passes.container(height=690, border=False, key="passes"):
        pass_panel(session)
    with inspected.container(height=690, border=False, key="inspected"):
        inspector_panel(session)
    evidence_panel(session)
    keys_panel(session)
