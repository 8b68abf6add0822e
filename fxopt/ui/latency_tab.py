"""Is the graph as it is now faster? Measured in pairs, in the background, with a verdict in words."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial

import streamlit as st

from fxopt.core import shared_copy
from fxopt.evidence import LatencyReport, measure
from fxopt.evidence.latency import threads_here
from fxopt.evidence.latency_report import EARLY_ROUNDS, FEWEST_ROUNDS
from fxopt.ui.charts import latency_chart
from fxopt.ui.engine_search import KEY as OTHER_ENGINES
from fxopt.ui.engine_search import other_engines
from fxopt.ui.example import check_runs, demands
from fxopt.ui.fault import all_or_nothing
from fxopt.ui.folders import is_served_here
from fxopt.ui.job import GraphJob, Job, Progress
from fxopt.ui.large import killable
from fxopt.ui.markdown import counted, escaped
from fxopt.ui.one_in_line import MEASUREMENTS
from fxopt.ui.panel import acting, work_ended
from fxopt.ui.presence import presence
from fxopt.ui.progress import watch
from fxopt.ui.session import Session
from fxopt.ui.site_search import LATENCY_SEARCHES, blame, tuning
from fxopt.ui.size_search import KEY as OTHER_SIZES
from fxopt.ui.size_search import other_sizes
from fxopt.ui.tab import Tab

WALL = "wall time"
"""The key of the last measurement of the time on the wall among the searches of a session."""
CONTROL = "The original against itself: so far apart do equal programs come out"
BRACKETS = "In brackets: the 95 % interval; a difference is shown where all of it lies beyond the control."


def _draw(session: Session) -> None:
    measurement = session.measurement
    if measurement is not None and measurement.job.running:
        watch(measurement.job, "measuring", ended=partial(work_ended, session))
        return
    bench = session.workbench
    if measurement is not None:
        _show(session, measurement)
        _on_the_wall(session)
    st.button(
        "Measure again" if measurement else "Measure",
        key="measure",
        type="primary",
        disabled=not bench.is_changed,
        help=None if bench.is_changed else "Switch a pass on first: the two graphs are the same",
        on_click=acting(session, start),
        args=(session,),
    )
    st.caption(
        "Times the original and the graph as it is now in pairs, in random order, in CPU time of one thread, and the "
        f"original against itself as a control; ends after {EARLY_ROUNDS} rounds where a difference is shown by then."
    )
    if measurement is not None and measurement.job.result is not None and _is_slower(measurement.job.result):
        blame(session, "latency")
    tuning(session)
    other_sizes(session)
    if is_served_here():  # others would wait in line for the set-up of three engines
        other_engines(session)


def _is_slower(report: LatencyReport) -> bool:
    return report.shown and report.ratio < 1


def _on_the_wall(session: Session) -> None:
    """Draw the time on the wall with all threads beside the CPU time of one: a button, the measurement, its verdict."""
    found = session.searches.get(WALL)
    if found is not None and found.job.running:
        watch(found.job, WALL, "Measuring wall time", ended=partial(work_ended, session))
        return
    threads = counted(threads_here(), "thread")
    report = found.job.result if found is not None and found.choices == session.workbench.choices else None
    if found is not None and found.job.error and not found.job.is_cancelled:
        st.error(escaped(found.job.error))
    if isinstance(report, LatencyReport) and report.rounds:
        times = f"{report.before_ms:.2f} ms before, {report.after_ms:.2f} ms now"
        control = f"the original against itself [{report.control_low:.2f}, {report.control_high:.2f}]"
        st.markdown(f"**Wall time with {threads}: {escaped(report.verdict)}**  \n{times}; {escaped(control)}")
    st.button(f"Measure wall time with {threads}", key="measure wall time", on_click=acting(session, start),
              args=(session, True), disabled=not session.workbench.is_changed,
              help="In the same pairs. Other work on this machine makes it longer, for both graphs alike")  # fmt: skip


def start(session: Session, on_the_wall: bool = False) -> None:
    """Begin to measure, on a copy of the graph: the visitor may go on switching passes."""
    with all_or_nothing(session):
        check_runs(session)
        bench, (args, kwargs) = session.workbench, session.opened.inputs
        after = shared_copy(bench.current)

        def work(progress: Progress) -> LatencyReport:
            threads = threads_here() if on_the_wall else None
            return measure(
                bench.pristine, after, args, kwargs, on_progress=progress, threads=threads, early=not on_the_wall
            )

        measured = killable(work, demands(session))
        shared = session.memo.measuring(WALL if on_the_wall else "latency", is_whole)
        begun = Job(lambda progress: shared(lambda: measured(progress)), presence(), MEASUREMENTS)
        job = GraphJob(bench.choices, begun)
        if on_the_wall:
            session.searches = {**session.searches, WALL: job}
            return
        session.measurement = job


def is_whole(report: LatencyReport) -> bool:
    """Return whether a measurement came to its end, so that it answers whoever waits in line for the same graphs."""
    return report.stopped is None


def _show(session: Session, measurement: GraphJob[LatencyReport]) -> None:
    if measurement.job.is_cancelled and measurement.job.result is None:
        return  # before its turn
    if measurement.job.error:
        st.error(escaped(measurement.job.error))
        return
    report = measurement.job.result
    if report is None:
        return
    if measurement.choices != session.workbench.choices:
        st.warning("Measured with other passes on than now.", icon=":material/history:")
    st.markdown(f"##### {escaped(report.verdict)}")
    if len(report.rounds) >= FEWEST_ROUNDS:
        figures, chart = st.columns([3, 4])
        with chart:
            latency_chart(report)
    else:
        figures = st.container()
    if report.rounds:
        columns = figures.columns(3)
        columns[0].metric("Original", f"{report.before_ms:.2f} ms")
        columns[1].metric("With the passes", f"{report.after_ms:.2f} ms")
        columns[2].metric("Control", f"{report.control_low:.2f} to {report.control_high:.2f}", help=CONTROL)
    told = f"{len(report.rounds)} rounds of {report.calls_per_sample} calls, {session.opened.sizes}"
    stopped = f" Stopped early: {report.stopped}." if report.stopped else ""
    threads = f"{report.threads} thread{'s' if report.threads != 1 else ''}"
    st.caption(escaped(f"{told}; CPU time, {threads}, on {report.machine}. {BRACKETS}{stopped}"))


def _shown(session: Session) -> Hashable:
    searches = map(session.searches.get, (*LATENCY_SEARCHES, OTHER_SIZES, OTHER_ENGINES, WALL))
    return session.workbench.choices, session.measurement, *searches


LATENCY = Tab("Latency", _draw, _shown)
