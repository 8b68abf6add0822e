"""Acts that come quickly are heard, and all that their runs have drawn is seen."""

from __future__ import annotations

import pytest
from streamlit.commands import execution_control
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.forward_msg_queue import ForwardMsgQueue
from streamlit.runtime.scriptrunner_utils.script_run_context import RunLocation

from fxopt.ui import delivery
from fxopt.ui.delivery import deliver_all


@pytest.fixture(autouse=True)
def page(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has drawn the page."""
    monkeypatch.setattr(ForwardMsgQueue, "clear", ForwardMsgQueue.clear)
    monkeypatch.setattr(AppSession, "request_rerun", AppSession.request_rerun)
    allowed = execution_control._KEYED_RERUN_ALLOWED_LOCATIONS
    monkeypatch.setattr(execution_control, "_KEYED_RERUN_ALLOWED_LOCATIONS", allowed)
    deliver_all()


def drawn(panel: str, text: str, place: int) -> ForwardMsg:
    message = ForwardMsg()
    message.metadata.delta_path.extend([0, place])
    message.delta.fragment_id = panel
    message.delta.new_element.markdown.body = text
    return message


def ended(how: ForwardMsg.ScriptFinishedStatus.ValueType) -> ForwardMsg:
    return ForwardMsg(script_finished=how)


def told(queue: ForwardMsgQueue) -> list[object]:
    return [
        one.delta.new_element.markdown.body if one.HasField("delta") else one.script_finished for one in queue.flush()
    ]


def test_a_run_of_panels_takes_back_nothing_of_the_run_before() -> None:
    """Neither what it drew, nor that it came to its end, at which the browser clears the rest of shorter panels."""
    queue = ForwardMsgQueue()
    queue.enqueue(drawn("graph", "first", 1))
    queue.enqueue(ended(ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY))
    queue.clear(retain_lifecycle_msgs=True, fragment_ids_this_run=["graph"])
    queue.enqueue(drawn("graph", "second", 1))
    assert told(queue) == ["first", ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY, "second"]


def test_a_run_of_the_whole_page_takes_the_place_of_what_is_not_sent_yet() -> None:
    queue = ForwardMsgQueue()
    queue.enqueue(drawn("graph", "first", 1))
    queue.enqueue(ended(ForwardMsg.FINISHED_SUCCESSFULLY))
    queue.clear(retain_lifecycle_msgs=True, fragment_ids_this_run=None)
    queue.enqueue(drawn("graph", "second", 1))
    assert told(queue) == [ForwardMsg.FINISHED_EARLY_FOR_RERUN, "second"]


class Bare(AppSession):
    """A session without a server, which has one fragment."""

    def __init__(self) -> None:
        pass

    def __del__(self) -> None:
        pass

    def has_fragment(self, fragment_id: str) -> bool:
        return fragment_id == "here"


@pytest.mark.parametrize(
    ("fragment", "is_timer", "asked"),
    [("here", False, "here"), ("gone", False, ""), ("gone", True, "gone"), ("", False, "")],
)
def test_an_act_in_a_panel_that_is_being_drawn_anew_draws_the_page(
    fragment: str, is_timer: bool, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Streamlit drops a request of a fragment that is not there; a timer has no act to lose."""
    requests: list[str] = []
    monkeypatch.setattr(delivery, "_request_rerun", lambda _, state: requests.append(state.fragment_id))
    Bare().request_rerun(ClientState(fragment_id=fragment, is_auto_rerun=is_timer))
    assert requests == [asked]


def test_the_body_of_a_fragment_may_ask_for_other_fragments() -> None:
    assert RunLocation.FRAGMENT in execution_control._KEYED_RERUN_ALLOWED_LOCATIONS
