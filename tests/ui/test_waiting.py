"""The line about the work that the page waits for."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
import streamlit as st

from fxopt.ui.job import Job
from fxopt.ui.waiting import _line, result_soon


class WholePageError(Exception):
    """Streamlit's rerun: nothing after it is done."""


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    said: list[str] = []

    def rerun() -> None:
        raise WholePageError

    monkeypatch.setattr(st, "caption", said.append)
    monkeypatch.setattr(st, "rerun", rerun)
    return said


@pytest.fixture
def job() -> Iterator[Job[bool]]:
    """Work that goes on until the test ends, also where it is asked to end."""
    end = threading.Event()
    yield Job(lambda progress: end.wait(60))
    end.set()


def test_the_line_says_what_is_done_and_for_how_long(told: list[str], job: Job[bool]) -> None:
    _line(job, "Laying out 29 boxes", time.monotonic() - 3, False, False)
    assert "Laying out 29 boxes … 3 s" in told[0]


def test_the_page_is_drawn_again_once_it_is_done(told: list[str]) -> None:
    done = Job(lambda progress: 1)
    done.wait()
    with pytest.raises(WholePageError):
        _line(done, "Laying out", time.monotonic(), False, False)
    assert not told


def test_the_page_is_drawn_again_once_its_turn_comes(told: list[str], job: Job[bool]) -> None:
    """In the line it is looked at once a second, and often once it runs."""
    with pytest.raises(WholePageError):
        _line(job, "Measuring", time.monotonic(), True, False)
    assert not told


def test_a_line_that_nobody_waits_for_any_more_is_not_drawn(told: list[str], job: Job[bool]) -> None:
    """Its run may have been asked for before something newer took its place, and would stand there for good."""
    job.cancel()
    assert job.running
    with pytest.raises(WholePageError):
        _line(job, "Laying out", time.monotonic(), False, False)
    assert not told


def test_a_result_that_is_left_to_a_later_run_is_not_waited_for(
    told: list[str], job: Job[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(st, "fragment", lambda draw, run_every: draw)
    assert result_soon(job, "Checking", at_once=False) is None
    assert "Checking … 0 s" in told[0]
    done = Job(lambda progress: 1)
    done.wait()
    assert result_soon(done, "Checking", at_once=False) == 1
