"""Work beside the page."""

from __future__ import annotations

import threading

import pytest

from fxopt.ui import job as job_module
from fxopt.ui.job import Job, Progress, about_cancel


def test_a_job_ends_at_its_next_progress_once_it_is_cancelled() -> None:
    going, ended = threading.Event(), threading.Event()

    def work(progress: Progress) -> str:
        going.set()
        assert ended.wait(30)
        return "went on" if progress(0.5) else "ended early"

    job = Job(work)
    assert going.wait(30)
    assert job.running
    job.cancel()
    ended.set()
    job.wait()
    assert (job.result, job.share, job.running) == ("ended early", 0.5, False)


def test_a_failure_is_kept_as_text() -> None:
    def work(progress: Progress) -> None:
        raise ValueError("no such graph")

    job = Job(work)
    job.wait()
    assert job.error == "ValueError: no such graph"


def test_the_help_of_cancel_tells_where_a_call_of_torch_cannot_be_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_module, "can_fork", lambda: True)
    assert about_cancel() is None
    monkeypatch.setattr(job_module, "can_fork", lambda: False)
    assert "comes to its end first" in str(about_cancel())
