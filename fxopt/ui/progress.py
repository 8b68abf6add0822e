"""The line of work that takes a while: how far it is, and a button to cancel it."""

from __future__ import annotations

from typing import TypeVar

import streamlit as st

from fxopt.ui.job import Job, about_cancel
from fxopt.ui.waiting import IN_LINE_SECONDS, in_line

T = TypeVar("T")
POLL_SECONDS = 0.25


def watch(job: Job[T], key: str, told: str = "Measuring") -> None:
    """Draw how far a job is, and a button to cancel it; the whole page anew, once it is done."""
    waits = bool(in_line(job))
    st.fragment(_running, run_every=IN_LINE_SECONDS if waits else POLL_SECONDS)(job, key, told, waits)


def _running(job: Job[T], key: str, told: str, waited: bool) -> None:
    waiting = in_line(job)
    if not job.running or (waited and not waiting):
        st.rerun()
    st.progress(job.share, text=f"Waiting for its turn{waiting}" if waiting else f"{told} … {job.share:.0%}")
    st.button("Cancel", key=f"cancel {key}", help=about_cancel(), on_click=job.cancel)
