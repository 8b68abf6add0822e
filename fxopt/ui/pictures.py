"""Layouts for the page: made beside it, given up once something newer is asked for, and kept for everyone."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

from fxopt.ui.job import Job, Progress
from fxopt.view import Layout, VisibleGraph, layout, layout_both, pack

LAYOUTS = 48
"""How many layouts are kept in memory, for all visitors together; one takes some kilobytes, or with thousands of boxes
a few megabytes."""

QUIET_SECONDS, POLL_SECONDS = 0.3, 0.1


@dataclass(frozen=True, eq=False)
class PackedLayout:
    """A layout as it goes to the browser, and the boxes by whose numbers marks are told."""

    id: str
    data: bytes
    graph: VisibleGraph


@st.cache_resource(max_entries=LAYOUTS, show_spinner=False)
def _placed(digest: str, _graph: VisibleGraph, _wanted: Callable[[], bool]) -> Layout:
    return layout(_graph, wanted=_wanted)


@st.cache_resource(max_entries=LAYOUTS, show_spinner=False)
def _packed(
    before_digest: str, after_digest: str, _before: VisibleGraph, _after: VisibleGraph, _wanted: Callable[[], bool]
) -> PackedLayout:
    base = _placed(before_digest, _before, _wanted)
    picture = layout_both(base, _after, wanted=_wanted)
    return PackedLayout(picture.id, pack(picture), picture.graph)


def packed(before: VisibleGraph, after: VisibleGraph) -> PackedLayout:
    """One layout for both graphs. Says so on the page where it takes long; a run of the script that ends ends it."""

    def work(progress: Progress) -> PackedLayout:
        return _packed(before.digest, after.digest, before, after, lambda: progress(0))

    job = Job(work)
    try:
        if not job.wait(QUIET_SECONDS):
            _wait(job, len(before.items))
    finally:
        # Where the visitor has asked for something else meanwhile, this run ends here, and its engine with it.
        job.cancel()
    if job.failure is not None:
        raise job.failure
    assert job.result is not None
    return job.result


def _wait(job: Job[PackedLayout], boxes: int) -> None:
    line, begun = st.empty(), time.monotonic() - QUIET_SECONDS
    while not job.wait(POLL_SECONDS):
        line.caption(f":material/hourglass_top: Laying out {boxes:,} boxes … {time.monotonic() - begun:.0f} s")
    line.empty()
