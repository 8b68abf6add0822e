"""The page, from this checkout: ``streamlit run app.py``. `fxopt app` serves it from anywhere."""

import streamlit as st
from starlette.middleware import Middleware

from fxopt.ui.browser_mark import MarkBrowser
from fxopt.ui.command import PAGE
from fxopt.ui.door import browser_opened, redraw_if_unreadable
from fxopt.ui.upload_gate import UploadGate

app = st.App(
    PAGE,
    lifespan=browser_opened,
    on_script_error=redraw_if_unreadable,
    middleware=[Middleware(MarkBrowser), Middleware(UploadGate)],
)
