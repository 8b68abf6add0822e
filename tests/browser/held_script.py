"""The page of a busy server: a run takes a while, and what it has drawn is sent a while later. For test_panels.py.

So a run that an act asks for meanwhile begins before the browser has heard of the end of the run before.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from streamlit.runtime.app_session import AppSession

from fxopt.ui.curtain import begin
from fxopt.ui.drawn import Drawn
from fxopt.ui.page import page

HELD_SECONDS = 0.3
flush, end = AppSession.flush_browser_queue, Drawn.run_ended


def held(session: Any) -> list[Any]:
    wait = getattr(session, "sent", 0.0) + HELD_SECONDS - time.monotonic()
    if wait > 0:
        asyncio.get_running_loop().call_later(wait, session._message_enqueued_callback)
        return []
    session.sent = time.monotonic()
    return flush(session)


def ended(drawn: Drawn, drew_all: bool) -> None:
    time.sleep(HELD_SECONDS)
    end(drawn, drew_all)


if not hasattr(AppSession, "sent"):
    AppSession.sent = 0.0  # type: ignore[attr-defined]
    AppSession.flush_browser_queue = held  # type: ignore[method-assign]
    Drawn.run_ended = ended  # type: ignore[method-assign]

curtain = begin()
page()
curtain.empty()
