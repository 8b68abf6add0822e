"""The page, where each step back or forward is overtaken by a run that the script itself asks for: for test_address.py.

Streamlit joins such a run with the step that waits, and keeps the address and the kind of the newer of the two.
"""

from __future__ import annotations

from dataclasses import replace

from streamlit.runtime.scriptrunner_utils.script_requests import RerunData, ScriptRequests

from fxopt.ui.curtain import begin
from fxopt.ui.page import page

asked = ScriptRequests._request_rerun_locked


def overtaken(requests: ScriptRequests, data: RerunData) -> bool:
    if data.is_history_navigation:
        data = replace(data, is_history_navigation=False, query_string=ScriptRequests.address)  # type: ignore[attr-defined]
    ScriptRequests.address = data.query_string  # type: ignore[attr-defined]
    return bool(asked(requests, data))


if not hasattr(ScriptRequests, "address"):
    ScriptRequests.address = ""  # type: ignore[attr-defined]
    ScriptRequests._request_rerun_locked = overtaken  # type: ignore[method-assign]

curtain = begin()
page()
curtain.empty()
