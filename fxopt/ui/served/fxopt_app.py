"""The server that ``streamlit run`` starts, as `fxopt app` does; it runs the script beside this file."""

from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware

from fxopt.ui.browser_mark import MarkBrowser
from fxopt.ui.door import browser_opened, redraw_if_unreadable
from fxopt.ui.upload_gate import UploadGate
from fxopt.ui.wrong_path import LeadBack

app = st.App(
    Path(__file__).with_name("fxopt_page.py"),
    lifespan=browser_opened,
    on_script_error=redraw_if_unreadable,
    middleware=[Middleware(LeadBack), Middleware(MarkBrowser), Middleware(UploadGate)],
)
