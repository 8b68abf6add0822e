"""The server's start, before PyTorch is imported: a browser opens, and sees the curtain."""

from __future__ import annotations

import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import streamlit as st
import uvicorn
from streamlit import config
from streamlit.cli_util import open_browser
from streamlit.web.server.server_util import get_display_address, get_url

from fxopt.process.garbage import without_collection
from fxopt.ui.refused import refuse_requests

LEAVE_SECONDS = 2
"""How long a server that is to end waits for its connections: a browser may keep one for a minute, and read nothing."""


def redraw_if_unreadable(error: Exception) -> bool:
    """Do as `fxopt.ui.fault.redraw_if_unreadable`, which is imported at the first error."""
    from fxopt.ui import fault

    return fault.redraw_if_unreadable(error)


@asynccontextmanager
async def browser_opened(app: st.App) -> AsyncIterator[None]:
    """Open the page in a browser of this machine, unless the server was started without one, while `app` is served."""
    refuse_requests()
    ended_by = getattr(signal.getsignal(signal.SIGINT), "__self__", None)
    if isinstance(ended_by, uvicorn.Server):
        ended_by.config.timeout_graceful_shutdown = LEAVE_SECONDS
    threading.Thread(target=_import_page, name="fxopt imports", daemon=True).start()
    if not config.get_option("server.headless"):
        open_browser(get_url(get_display_address(config.get_option("server.address"))))
    yield


@without_collection
def _import_page() -> None:
    import fxopt.ui.page  # noqa: F401
