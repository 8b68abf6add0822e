"""What would one pick instead? The original in other engines, measured beside the page, as rows of one table."""

from __future__ import annotations

import streamlit as st

from fxopt.evidence.engines import EngineRow, EnginesReport, compare_engines
from fxopt.ui.example import check_runs
from fxopt.ui.fault import all_or_nothing
from fxopt.ui.job import Job, Progress
from fxopt.ui.large import killable
from fxopt.ui.markdown import escaped
from fxopt.ui.one_in_line import MEASUREMENTS
from fxopt.ui.presence import presence
from fxopt.ui.searches import answer_of, keep
from fxopt.ui.session import Session

KEY = "engines"
BUDGET = 20.0
"""Seconds for the rounds of each engine, at most."""
WITH_PASSES = "the passes that are on"


def other_engines(session: Session) -> None:
    """Draw the button, the measurements while they run, and their table beside the passes that are on."""
    answer = answer_of(session, KEY, "Measuring other engines", of_original=True, label="How fast are other engines?",
                       help="Measures the original in torch.compile, ONNX Runtime and OpenVINO, where they are "
                       f"installed. The set-up of each may take a minute, its rounds {BUDGET:.0f} s at most.",
                       on_click=start, args=(session,))  # fmt: skip
    if answer is not None:
        _show(session, answer)


def start(session: Session) -> None:
    """Begin, in a process of its own: an engine changes the state of the whole process, and may end it."""
    with all_or_nothing(session), session.at_work:
        check_runs(session)
        before, (args, kwargs) = session.workbench.pristine, session.opened.inputs

        def work(progress: Progress) -> EnginesReport:
            return compare_engines(before, args, kwargs, budget=BUDGET, on_progress=progress)

        keep(session, KEY, Job(killable(work, [None]), presence(), MEASUREMENTS))


def _show(session: Session, found: EnginesReport) -> None:
    st.markdown(f"**{escaped(found.verdict)}**")
    rows = EnginesReport((*_with_passes(session), *found.rows))
    st.dataframe(rows.frame, key="table of engines", hide_index=True)
    stopped = f" Stopped early: {found.stopped}." if found.stopped else ""
    st.caption(
        "Each against the original, in CPU time of one thread. The set-up, in seconds on the wall, is the export, the "
        f"compilation and the first call.{escaped(stopped)}"
    )


def _with_passes(session: Session) -> tuple[EngineRow, ...]:
    """Return the row of the graph as it is now, where it was measured; else no row."""
    measurement = session.measurement
    if measurement is None or measurement.choices != session.workbench.choices or measurement.job.result is None:
        return ()
    return (EngineRow(WITH_PASSES, latency=measurement.job.result),)
