"""The line of work that takes a while: how far it is, and a button to cancel it."""

from __future__ import annotations

from typing import TypeVar

import streamlit as st

from fxopt.ui.job import Job, about_cancel
from fxopt.ui.waiting import in_line

T = TypeVar("T")
POLL_SECONDS = 0.5


def watch(job: Job[T], key: str, told: str = "Measuring") -> None:
    """Draw how far a job is, and a button to cancel it; the whole page anew, once it is done."""
    st.fragment(_running, run_every=POLL_SECONDS)(job, key, told)


def _running(job: Job[T], key: str, told: str) -> None:
    if not job.running:
        st.rerun()
    waiting = in_line(job)
    st.progress(job.share, text=f"Waiting for its turn{waiting}" if waiting else f"{told} … {job.share:.0%}")
    st.button("Cancel", key=f"cancel {key}", help=about_cancel(), on_click=job.cancel)
