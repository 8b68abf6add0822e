"""The line of work that takes a while: how far it is, and a button to cancel it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import streamlit as st

from fxopt.ui.job import Job, about_cancel
from fxopt.ui.waiting import IN_LINE_SECONDS, in_line, is_over

T = TypeVar("T")
POLL_SECONDS = 0.25


def watch(job: Job[T], key: str, told: str = "Measuring", ended: Callable[[], None] = st.rerun) -> None:
    """Draw how far a job is, and a button to cancel it; `ended` draws the page, or a part of it, anew afterwards."""
    waits = bool(in_line(job))
    line = st.fragment(_running, run_every=IN_LINE_SECONDS if waits else POLL_SECONDS)
    line(job, key, told, time.monotonic(), waits, ended)


def _running(job: Job[T], key: str, told: str, drawn: float, waited: bool, ended: Callable[[], None]) -> None:
    waiting = in_line(job)
    if is_over(job, drawn) or (waited and not waiting):
        ended()
    st.progress(job.share, text=f"Waiting for its turn{waiting}" if waiting else f"{told} … {job.share:.0%}")
    st.button("Cancel", key=f"cancel {key}", help=about_cancel(), on_click=job.cancel)
