"""Requests of a client of another make that would reach other visitors, or tell of this machine."""

from __future__ import annotations

import pytest
import streamlit as st
from streamlit import git_util
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.script_data import ScriptData

from fxopt.errors import FxoptError
from fxopt.ui import refused
from fxopt.ui.refused import refuse_requests

GRANTING = {name: getattr(AppSession, name) for name in refused._REQUESTS}


class Bare(AppSession):
    """A session without a server, which notes its answers and its faults."""

    def __init__(self) -> None:
        self.answers: list[object] = []
        self._script_data = ScriptData(__file__, is_hello=False)

    def __del__(self) -> None:
        pass

    def _enqueue_forward_msg(self, msg: object) -> None:
        self.answers.append(msg)

    def handle_backmsg_exception(self, e: BaseException) -> None:
        self.answers.append(e)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Bare:
    """A session of a process that has drawn the page."""
    for name, method in GRANTING.items():
        monkeypatch.setattr(AppSession, name, method)
    refuse_requests()
    return Bare()


@st.cache_resource
def model() -> object:
    return object()


def test_no_visitor_clears_the_models_of_all(session: Bare) -> None:
    built = model()
    session.handle_backmsg(BackMsg(clear_cache=True))
    assert model() is built
    assert session.answers == []


class Repository:
    """A repository of the server, as Streamlit looks at it."""

    untracked_files = uncommitted_files = ("secret.txt",)
    is_head_detached, ahead_commits = False, ()

    def __init__(self, path: str) -> None:
        self.path = path

    def get_repo_info(self) -> tuple[str, str, str]:
        return "repository.git", "branch", self.path


def test_no_visitor_is_told_the_files_of_the_server(session: Bare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_util, "GitRepo", Repository)
    session.handle_backmsg(BackMsg(load_git_info=True))
    assert session.answers == []


def test_a_streamlit_that_grants_a_request_elsewhere_serves_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refused, "_REQUESTS", {"_handle_elsewhere": "for something"})
    monkeypatch.setattr(refused, "is_served_here", lambda: False)
    with pytest.raises(FxoptError, match="has no _handle_elsewhere, so a browser's request for something cannot be"):
        refuse_requests()


def test_and_is_told_once_in_the_log_of_a_page_for_this_machine_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    others = {name: text for name, text in refused._REQUESTS.items() if "git" in name}
    monkeypatch.setattr(refused, "_REQUESTS", {"_handle_elsewhere": "for something"} | others)
    monkeypatch.setattr(refused, "is_served_here", lambda: True)
    for name in others:
        monkeypatch.setattr(AppSession, name, GRANTING[name])
    refused._warn_once.cache_clear()
    told: list[str] = []
    monkeypatch.setattr(refused._LOG, "warning", lambda text, *rest: told.append(text % rest))
    refuse_requests()
    refuse_requests()
    assert told == ["fxopt: a browser's request for something is granted: this Streamlit has no _handle_elsewhere"]
    assert all(getattr(AppSession, name) is not GRANTING[name] for name in others), "the others are refused"
