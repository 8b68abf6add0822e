"""Layouts for the page: made beside it, given up once something newer is asked for, and kept for everyone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

from fxopt.ui.job import Job, Progress
from fxopt.view import Layout, Side, VisibleGraph, layout, layout_both, pack

LAYOUTS = 48
"""The number of layouts kept in memory, for all visitors together; one takes some kilobytes, or with thousands of boxes
a few megabytes."""


@dataclass(frozen=True, eq=False)
class PackedLayout:
    """A layout as it goes to the browser, and the boxes by whose numbers marks are told."""

    id: str
    data: bytes
    graph: VisibleGraph
    before: VisibleGraph
    """The same boxes; a node that was replaced under its own name is found in its old one."""


@st.cache_resource(max_entries=LAYOUTS, show_spinner=False)
def _placed(digest: str, _graph: VisibleGraph, _wanted: Callable[[], bool]) -> Layout:
    return layout(_graph, wanted=_wanted)


@st.cache_resource(max_entries=LAYOUTS, show_spinner=False)
def _packed(
    before_digest: str, after_digest: str, _before: VisibleGraph, _after: VisibleGraph, _wanted: Callable[[], bool]
) -> PackedLayout:
    base = _placed(before_digest, _before, _wanted)
    picture = layout_both(base, _after, wanted=_wanted)
    both = picture.comparison
    before = both.seen_from(Side.BEFORE) if both is not None else picture.graph
    return PackedLayout(picture.id, pack(picture), picture.graph, before)


def laying_out(before: VisibleGraph, after: VisibleGraph) -> Job[PackedLayout]:
    """Begin to make one layout for both graphs. To cancel it ends its engine."""

    def work(progress: Progress) -> PackedLayout:
        return _packed(before.digest, after.digest, before, after, lambda: progress(0))

    return Job(work)
