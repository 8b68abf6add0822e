"""The page, from top to bottom."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from fxopt.ui.graph_component import graph_code
from fxopt.ui.model_picker import model_picker
from fxopt.ui.outside import ask_nobody
from fxopt.ui.workplace import workplace

_FOLDER = Path(__file__).parent


def page() -> None:
    """Draw the page for one visitor: to be called first in the script that Streamlit runs."""
    ask_nobody()
    st.set_page_config(page_title="fxopt", page_icon=str(_FOLDER / "icon.svg"), layout="wide")
    st.html(_FOLDER / "page.css")
    graph_code()
    session = model_picker()
    if session is not None:
        workplace(session)
