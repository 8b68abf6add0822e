"""The page, from top to bottom. Run it with: python serve.py"""

from pathlib import Path

import streamlit as st

HERE = Path(__file__).parent

st.set_page_config(page_title="fxopt", page_icon=str(HERE / "assets" / "icon.svg"), layout="wide")
st.html(HERE / "fxopt" / "ui" / "page.css")


def page() -> None:
    waiting = st.empty()
    waiting.caption("Loading PyTorch …")
    # The first visitor after a start waits seconds for torch; the frame of the page is there at once.
    from fxopt.ui.graph_component import graph_code
    from fxopt.ui.model_picker import model_picker
    from fxopt.ui.workplace import workplace

    waiting.empty()
    graph_code()
    session = model_picker()
    if session is not None:
        workplace(session)


page()
