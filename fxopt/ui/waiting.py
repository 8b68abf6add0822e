"""Waiting for work beside the page: a moment of silence, then a quiet line; the page stays usable."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import streamlit as st

from fxopt.ui.job import Job, about_cancel
from fxopt.ui.markdown import counted
from fxopt.ui.turns import FIRST_DRAWINGS

T = TypeVar("T")
QUIET_SECONDS, POLL_SECONDS, IN_LINE_SECONDS = 0.3, 0.2, 1.0
"""A line comes after the first; work is looked at after the second, and after the third while it waits for its turn,
where a whole class may wait at once."""
HOLD_SECONDS = 0.1
"""A look at work lasts so long, unless the work ends meanwhile: its end is seen sooner, and an act waits no longer."""


def result_soon(
    job: Job[T],
    told: str,
    *,
    can_cancel: bool = False,
    at_once: bool = True,
    ended: Callable[[], None] = st.rerun,
) -> T | None:
    """Return the result of a job, if it is ready at once.

    Otherwise return None, and draw a line with `told`, which names the work, until it is done; then `ended` draws the
    page, or a part of it, again. Waiting for it here would hold up the visitor's next acts: Streamlit lets the run of a
    panel come to its end first. With `can_cancel`, a button beside the line cancels the job.

    Without `at_once`, the run that begins a job leaves its result to a later one. The browser asks for that run, and
    so all that it has sent before has come by then.

    Raises:
        Exception: the exception of the job.
    """
    quiet = QUIET_SECONDS if at_once else 0.0
    with FIRST_DRAWINGS.aside():
        is_done = job.wait(quiet)
    if not is_done:
        waits = bool(in_line(job))
        line = st.fragment(_line, run_every=IN_LINE_SECONDS if waits else POLL_SECONDS)
        line(job, told, time.monotonic(), quiet, waits, can_cancel, ended)
        return None
    if job.failure is not None:
        raise job.failure
    assert job.result is not None
    return job.result


def in_line(job: Job[T]) -> str:
    """Return the place of a job that waits for its turn, in words; empty where it has it."""
    if not job.before:
        return ""
    return f", after {counted(job.before, 'other measurement')}"


def is_over(job: Job[T], drawn: float) -> bool:
    """Return whether a job that was running when its line was `drawn` has ended; look for a moment, but not then."""
    return job.wait(HOLD_SECONDS if time.monotonic() > drawn + HOLD_SECONDS else 0.0)


def _line(
    job: Job[T], told: str, drawn: float, quiet: float, waited: bool, can_cancel: bool, ended: Callable[[], None]
) -> None:
    # A run of this line that was asked for before something newer took its place would stand there for good.
    waiting = in_line(job)
    if is_over(job, drawn) or job.is_cancelled or (waited and not waiting):
        ended()
    line = f":material/hourglass_top: {told}{waiting} … {time.monotonic() - drawn + quiet:.0f} s"
    if not can_cancel:
        st.caption(line)
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(line, width="content")
        st.button("Cancel", key=f"cancel: {told}", help=about_cancel(), on_click=job.cancel)
