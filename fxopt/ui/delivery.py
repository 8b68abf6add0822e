"""Each act of the visitor is heard, and each part that a run has drawn is seen, also where acts come quickly.

Streamlit drops some of both. At the start of a run of fragments it takes back what an earlier run has drawn of them and
the browser has not fetched yet, and lets the end of that run be one that broke off: a panel that this run does not
draw after all is lost, and one that became shorter keeps its last lines, which the browser clears at an end alone. And
it ignores an act in a panel that is just being drawn anew with those around it. Fragments of one's choice it draws
after a callback alone: not where the body of a fragment finds that some work has ended.
"""

from __future__ import annotations

from typing import Any

from streamlit.commands import execution_control
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.forward_msg_queue import ForwardMsgQueue
from streamlit.runtime.scriptrunner_utils.script_run_context import RunLocation

_clear, _request_rerun = ForwardMsgQueue.clear, AppSession.request_rerun


def deliver_all() -> None:
    """Let nothing of it be dropped or refused, at any session of this process."""
    setattr(ForwardMsgQueue, "clear", _cleared)  # noqa: B010 - mypy knows no method that is replaced
    setattr(AppSession, "request_rerun", _rerun_requested)  # noqa: B010
    execution_control._KEYED_RERUN_ALLOWED_LOCATIONS = frozenset(RunLocation)


def _cleared(queue: ForwardMsgQueue, *args: Any, fragment_ids_this_run: list[str] | None = None, **named: Any) -> None:
    """Clear the queue to the browser, for a run of the whole page; keep it, for one of fragments."""
    if fragment_ids_this_run is None:
        _clear(queue, *args, **named)
    else:
        queue._delta_index_map = {}  # what is drawn from now on comes behind the end of the run before


def _rerun_requested(session: AppSession, client_state: ClientState | None) -> None:
    """Request the run that an act asks for; that of the whole page, where its fragment is not there at the moment."""
    fragment = client_state.fragment_id if client_state is not None else ""
    if client_state is not None and fragment and not client_state.is_auto_rerun and not session.has_fragment(fragment):
        client_state.ClearField("fragment_id")
    _request_rerun(session, client_state)
