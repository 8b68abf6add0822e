"""The page, from top to bottom. Run it with: streamlit run app.py"""

from pathlib import Path

import streamlit as st

HERE = Path(__file__).parent

st.set_page_config(page_title="fxopt", page_icon=str(HERE / "assets" / "icon.svg"), layout="wide")
st.html(HERE / "fxopt" / "ui" / "page.css")


def page() -> None:
    waiting = st.empty()
    waiting.caption("Loading PyTorch …")
    # The first visitor after a start waits seconds for torch; the frame of the page is there at once.
    from fxopt.ui.evidence_panel import evidence_panel
    from fxopt.ui.graph_panel import graph_panel, obey_graphs
    from fxopt.ui.inspector import inspector
    from fxopt.ui.keys import keys, obey_keys
    from fxopt.ui.model_picker import model_picker
    from fxopt.ui.nodes_tab import obey_nodes
    from fxopt.ui.pass_panel import pass_panel

    waiting.empty()
    session = model_picker()
    if session is None:
        return
    with session.at_work:
        session.obey()
        obey_keys(session)
        obey_graphs(session)
        obey_nodes(session)
        passes, graph, inspected = st.columns([3, 6, 3])
        with graph:
            graph_panel(session)
        with passes.container(height=690, border=False, key="passes"):
            pass_panel(session)
        with inspected.container(height=690, border=False, key="inspected"):
            inspector(session)
        evidence_panel(session)
        keys()


page()
