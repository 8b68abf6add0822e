"""Is the graph as it is now faster? Measured in pairs, in the background, with a verdict in words."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from fxopt.core import shared_copy
from fxopt.evidence import LatencyReport, measure
from fxopt.ui.fault import all_or_nothing
from fxopt.ui.job import Job, Progress
from fxopt.ui.markdown import escaped
from fxopt.ui.presence import presence
from fxopt.ui.session import Session
from fxopt.workbench import Choice

POLL_SECONDS = 0.5

BRACKETS = "In brackets: the 95 % interval; a difference is shown where all of it lies beyond the control."


@dataclass(frozen=True, eq=False)
class Measurement:
    """A measurement, and the choices of passes it is of."""

    choices: tuple[Choice, ...]
    job: Job[LatencyReport]


def latency_tab(session: Session) -> None:
    measurement: Measurement | None = session.measurement
    if measurement is not None and measurement.job.running:
        watch(measurement.job, "measuring")
        return
    bench = session.workbench
    st.markdown(
        "Times the original and the graph as it is now in pairs, in random order, in CPU time of one thread, and the "
        "original against itself as a control."
    )
    st.button(
        "Measure again" if measurement else "Measure",
        key="measure",
        type="primary",
        disabled=not bench.is_changed,
        help=None if bench.is_changed else "Switch a pass on first: the two graphs are the same",
        on_click=start,
        args=(session,),
    )
    if measurement is not None:
        _show(session, measurement)


def start(session: Session) -> None:
    """Begin to measure, on a copy of the graph: the visitor may go on switching passes."""
    with all_or_nothing(session):
        session.check_demand()
        bench, (args, kwargs) = session.workbench, session.opened.inputs
        after = shared_copy(bench.current)

        def work(progress: Progress) -> LatencyReport:
            return measure(bench.pristine, after, args, kwargs, on_progress=progress)

        session.measurement = Measurement(bench.choices, Job(work, presence()))


def watch(job: Job[LatencyReport], key: str) -> None:
    """Draw how far a measurement is, and a button to cancel it; the whole page anew, once it is done."""
    st.fragment(_running, run_every=POLL_SECONDS)(job, key)


def _running(job: Job[LatencyReport], key: str) -> None:
    if not job.running:
        st.rerun()
    st.progress(job.share, text=f"Measuring … {job.share:.0%}")
    st.button("Cancel", key=f"cancel {key}", on_click=job.cancel)


def _show(session: Session, measurement: Measurement) -> None:
    if measurement.job.error:
        st.error(escaped(measurement.job.error))
        return
    report = measurement.job.result
    if report is None:
        return
    if measurement.choices != session.workbench.choices:
        st.warning("Measured with other passes on than now.", icon=":material/history:")
    st.markdown(f"### {escaped(report.verdict)}")
    if report.rounds:
        columns = st.columns(3)
        columns[0].metric("Original", f"{report.before_ms:.2f} ms")
        columns[1].metric("With the passes", f"{report.after_ms:.2f} ms")
        columns[2].metric("Original against itself (control)", f"{report.control_low:.2f} to {report.control_high:.2f}")
    told = f"{len(report.rounds)} rounds of {report.calls_per_sample} calls, {session.opened.sizes}"
    stopped = f" Stopped early: {report.stopped}." if report.stopped else ""
    threads = f"{report.threads} thread{'s' if report.threads != 1 else ''}"
    st.caption(escaped(f"{told}; CPU time, {threads}, on {report.machine}. {BRACKETS}{stopped}"))
