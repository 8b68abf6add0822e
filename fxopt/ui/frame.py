"""The frame of the page: one screen, whose panels the visitor resizes and closes in the browser."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from fxopt.ui.modules import joined

_STYLES = Path(__file__).with_name("frame.css")
_frame = st.components.v2.component("fxopt_frame", js=joined("frame"), isolate_styles=False)


def frame_styles() -> None:
    """Draw the places of the panels, once for the page and before them."""
    st.html(_STYLES)


def frame_edges() -> None:
    """Draw the edges between the panels, and the buttons of the drawer."""
    with st.container(key="frame", gap=None):
        _frame(key="edges")
