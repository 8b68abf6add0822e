"""The first sight of the page while PyTorch is imported: a picture of the first model's graph, made ahead.

It imports no torch itself: it is on screen within a second of the server's start, and the page comes under it.
"""

from __future__ import annotations

import base64
import functools
import sys
from pathlib import Path

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

FOLDER = Path(__file__).parent
PICTURE = FOLDER / "first_picture.svg"
"""The graph that the page opens on, written by ``scripts/first_picture.py``."""
_WORDS = "Loading PyTorch … the page is ready in a few seconds."
_MODEL = "digits_conv_net"


def begin() -> DeltaGenerator:
    """Draw the styles of the page, and the curtain where PyTorch is still to be imported; return the curtain's place.

    Its place is there in each run: elements below keep their position, or the browser would build them anew.
    """
    st.set_page_config(page_title="fxopt", page_icon=str(FOLDER / "icon.svg"), layout="wide")
    st.html(FOLDER / "page.css")
    place = st.empty()
    if not is_imported():
        place.html(_curtain(st.query_params.get("model", _beginning()) == _MODEL))
    return place


def _beginning() -> str:
    """Return the key of the model that the page opens on; `fxopt app` was given none where the module is not there."""
    own = sys.modules.get("fxopt.ui.own_models")
    return str(own.beginning()[0]) if own is not None else _MODEL


def is_imported() -> bool:
    """Return whether the page, and PyTorch with it, has been imported as a whole."""
    return hasattr(sys.modules.get("fxopt.ui.page"), "page")


@functools.cache
def _curtain(with_picture: bool) -> str:
    picture = ""
    if with_picture:
        content = base64.b64encode(PICTURE.read_bytes()).decode()
        picture = f'<img alt="The graph of the first model" src="data:image/svg+xml;base64,{content}">'
    return f'<div class="curtain"><div class="brand">fxopt</div><p role="status">{_WORDS}</p>{picture}</div>'
