"""Where would it pay? The latency at other batches and sequences, measured beside the page, as a chart and numbers."""

from __future__ import annotations

import streamlit as st

from fxopt.core import shared_copy
from fxopt.evidence import Demand, demand_of
from fxopt.evidence.latency_by_size import LatencyBySize, Size, latency_by_size, sizes_around
from fxopt.models import Inputs
from fxopt.ui.charts import sizes_chart
from fxopt.ui.example import check_runs
from fxopt.ui.fault import all_or_nothing
from fxopt.ui.job import Job, Progress
from fxopt.ui.large import killable
from fxopt.ui.limits import check_demand
from fxopt.ui.markdown import counted, escaped
from fxopt.ui.one_in_line import MEASUREMENTS
from fxopt.ui.open_model import OpenModel
from fxopt.ui.presence import presence
from fxopt.ui.searches import answer_of, keep
from fxopt.ui.session import Session

KEY = "sizes"
BUDGET = 60.0
"""Seconds of all measurements, at most."""


def other_sizes(session: Session) -> None:
    """Draw the button, the measurements while they run, and their answer where it is about the sites on now."""
    sizes = sizes_to_try(session.opened)
    told = f"Measures at {counted(len(sizes), 'size')} of batch and sequence. It takes {BUDGET:.0f} s at most."
    if len(sizes) < 2:
        told = "The graph runs at the sizes of the example alone: batch and sequence are fixed in it."
    elif not session.workbench.is_changed:
        told = "Switch a pass on first: the two graphs are the same"
    answer = answer_of(session, KEY, "Measuring at other sizes", label="Where would it pay?", help=told, on_click=start,
                       args=(session,), disabled=len(sizes) < 2 or not session.workbench.is_changed)  # fmt: skip
    if answer is not None:
        _show(answer)


def sizes_to_try(opened: OpenModel) -> tuple[Size, ...]:
    """Return the sizes at which the graph runs as it is, around those of the example."""
    limits, free = opened.source.sizes, opened.report.free
    bounds = [
        (limit.least, limit.most) if limit is not None and name in free else None
        for name, limit in (("batch", limits.batch), ("sequence", limits.sequence))
    ]
    return sizes_around((opened.batch, opened.sequence), bounds)


def start(session: Session) -> None:
    """Begin, on a copy of the graph: the visitor may go on switching passes."""
    with all_or_nothing(session), session.at_work:
        check_runs(session)
        bench, opened = session.workbench, session.opened
        before, after, sizes = bench.pristine, shared_copy(bench.current), sizes_to_try(opened)
        has_edits = bool(bench.edits)

        def inputs_of(batch: int, sequence: int | None) -> Inputs:
            args, kwargs = opened.source.inputs(opened.model, batch, sequence)
            for graph in (before, after) if has_edits else (before,):  # passes keep the demand
                check_demand(f"{opened.source.title} at this size", demand_of(graph, args, kwargs))
            return args, kwargs

        def work(progress: Progress) -> LatencyBySize:
            return latency_by_size(before, after, sizes, inputs_of, budget=BUDGET, on_progress=progress)

        keep(session, KEY, Job(killable(work, [_demand_of_largest(opened, sizes)]), presence(), MEASUREMENTS))


def _demand_of_largest(opened: OpenModel, sizes: tuple[Size, ...]) -> Demand:
    """Return about the demand of a run at the largest of some sizes."""
    tokens = max(batch * (sequence or 1) for batch, sequence in sizes) / (opened.batch * (opened.sequence or 1))
    return Demand(int(opened.demand.peak_bytes * tokens), int(opened.demand.flops * tokens), {})


def _show(found: LatencyBySize) -> None:
    st.markdown(f"**{escaped(found.verdict)}**")
    if found.stopped:
        st.caption(f"Stopped early: {escaped(found.stopped)}.")
    if found.measured:
        sizes_chart(found)
        numbers = st.expander("The numbers by size", key="numbers by size")
        numbers.dataframe(found.frame, key="table by size", hide_index=True)
    for one in found.at:
        if one.failure:
            st.caption(escaped(f"Not measured at {one.name}: {one.failure}"))
        elif one not in found.measured:
            st.caption(escaped(f"At {one.name} there was no time for rounds enough."))
