"""Other machines: Streamlit sends no request to any of them."""

from __future__ import annotations

from streamlit import net_util


def ask_nobody() -> None:
    """Keep Streamlit from asking an outside service for this machine's address.

    It would ask at a start on every network, and at a call from a page elsewhere. It skips the request if it has an
    answer; an empty one fits no caller.
    """
    net_util._external_ip = ""
