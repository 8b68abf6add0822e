"""Other machines: Streamlit asks none of them for anything."""

from __future__ import annotations

from streamlit import net_util


def ask_nobody() -> None:
    """Let Streamlit ask no outside service for this machine's address.

    It would at a start on every network, and when a page from elsewhere calls. Not where it has an answer; an empty one
    fits no caller.
    """
    net_util._external_ip = ""
