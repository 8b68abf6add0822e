"""The line about the work that the page waits for."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
import streamlit as st

from fxopt.ui.job import Job
from fxopt.ui.waiting import HOLD_SECONDS, _line, is_over, result_soon


class PageAgainError(Exception):
    """The page is drawn again: nothing after it is done."""


def again() -> None:
    raise PageAgainError


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    said: list[str] = []
    monkeypatch.setattr(st, "caption", said.append)
    return said


@pytest.fixture
def job() -> Iterator[Job[bool]]:
    """Work that goes on until the test ends, also where it is asked to end."""
    end = threading.Event()
    yield Job(lambda progress: end.wait(60))
    end.set()


def test_the_line_says_what_is_done_and_for_how_long(told: list[str], job: Job[bool]) -> None:
    _line(job, "Laying out 29 boxes", time.monotonic() - 2.7, 0.3, False, False, again)
    assert "Laying out 29 boxes … 3 s" in told[0]


def test_the_page_is_drawn_again_once_it_is_done(told: list[str]) -> None:
    done = Job(lambda progress: 1)
    done.wait()
    with pytest.raises(PageAgainError):
        _line(done, "Laying out", time.monotonic(), 0, False, False, again)
    assert not told


def test_the_page_is_drawn_again_once_its_turn_comes(told: list[str], job: Job[bool]) -> None:
    """In the line it is looked at once a second, and often once it runs."""
    with pytest.raises(PageAgainError):
        _line(job, "Measuring", time.monotonic(), 0, True, False, again)
    assert not told


def test_a_line_that_nobody_waits_for_any_more_is_not_drawn(told: list[str], job: Job[bool]) -> None:
    """Its run may have been asked for before something newer took its place, and would stand there for good."""
    job.cancel()
    assert job.running
    with pytest.raises(PageAgainError):
        _line(job, "Laying out", time.monotonic(), 0, False, False, again)
    assert not told


def test_a_look_lasts_a_moment_and_ends_with_the_work_but_none_is_had_as_the_line_is_drawn(
    job: Job[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float | None] = []
    monkeypatch.setattr(job, "wait", lambda seconds: waited.append(seconds) or False)
    assert not is_over(job, time.monotonic())
    assert not is_over(job, time.monotonic() - 60)
    assert waited == [0, HOLD_SECONDS]


def test_a_result_that_is_left_to_a_later_run_is_not_waited_for(
    told: list[str], job: Job[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(st, "fragment", lambda draw, run_every: draw)
    assert result_soon(job, "Checking", at_once=False) is None
    assert "Checking … 0 s" in told[0]
    done = Job(lambda progress: 1)
    done.wait()
    assert result_soon(done, "Checking", at_once=False) == 1
