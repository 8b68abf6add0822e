"""Presence of the visitor: work that was begun for someone who has left comes to an end."""

from __future__ import annotations

import time
from collections.abc import Callable

from streamlit import runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

GRACE_SECONDS = 10.0
"""A browser that loses its connection for so long comes back to its session."""


def presence(grace: float = GRACE_SECONDS) -> Callable[[], bool]:
    """Return a test for the presence of the visitor whose run of the page this is, to be called from any thread.

    Outside a server, as in tests and scripts, the visitor is always there.
    """
    context = get_script_run_ctx(suppress_warning=True)
    if context is None or not runtime.exists():
        return lambda: True
    server, visitor = runtime.get_instance(), context.session_id
    seen = time.monotonic()

    def is_here() -> bool:
        nonlocal seen
        now = time.monotonic()
        if server.is_active_session(visitor):
            seen = now
        return now - seen <= grace

    return is_here
