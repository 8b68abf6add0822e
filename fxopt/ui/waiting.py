"""Waiting for work beside the page: nothing is shown for a moment, then a quiet line."""

from __future__ import annotations

import time
from typing import TypeVar

import streamlit as st

from fxopt.ui.job import Job

T = TypeVar("T")
QUIET_SECONDS, POLL_SECONDS = 0.3, 0.1


def result_of(job: Job[T], told: str) -> T:
    """What a job gives, waited for; `told` says in the line what it does. Raises what the job raised."""
    if not job.wait(QUIET_SECONDS):
        line, begun = st.empty(), time.monotonic() - QUIET_SECONDS
        while not job.wait(POLL_SECONDS):
            line.caption(f":material/hourglass_top: {told} … {time.monotonic() - begun:.0f} s")
        line.empty()
    if job.failure is not None:
        raise job.failure
    assert job.result is not None
    return job.result
