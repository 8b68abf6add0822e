"""Which sites break the outputs, which make it slower, and which pay: searches by runs, beside the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from fxopt.ui.acts import choose
from fxopt.ui.example import check_runs, demands
from fxopt.ui.fault import all_or_nothing
from fxopt.ui.going import go_to
from fxopt.ui.job import Job, Progress
from fxopt.ui.large import killable
from fxopt.ui.markdown import code, counted, escaped
from fxopt.ui.one_in_line import MEASUREMENTS
from fxopt.ui.panel import acting
from fxopt.ui.presence import presence
from fxopt.ui.searches import answer_of, keep
from fxopt.ui.session import Session
from fxopt.workbench import Workbench
from fxopt.workbench.autotuning import Tuning, autotune
from fxopt.workbench.bisecting import Bisection, Question, bisect

BUDGET = 60.0
"""Seconds of a search, at most."""
MANY = 6
"""The most sites that are named, each with a button that leads to it."""
TUNING = "tuning"
LATENCY_SEARCHES = ("latency", TUNING)
"""Those that the tab Latency shows."""

_LABELS = {
    "outputs": "Find the sites that break it",
    "latency": "Find the sites that make it slower",
    TUNING: "Keep only sites that pay",
}
_TOLD = {
    "outputs": "Runs ever fewer of the sites that are on, until each that is left is needed to break the outputs",
    "latency": "Measures ever fewer of the sites that are on, until each that is left is needed to make it slower",
    TUNING: "Times the nodes of each site with and without it, on this machine, and says which of the sites pay",
}
_RUNNING = {
    "outputs": "Running fewer and fewer sites",
    "latency": "Measuring fewer and fewer sites",
    TUNING: "Timing the nodes of each pass",
}


def blame(session: Session, question: Question) -> None:
    """Draw a button that looks for the sites to blame, the search while it runs, and its answer."""
    answer = _answer(session, question)
    if isinstance(answer, Bisection):
        _show_bisection(session, answer)


def tuning(session: Session) -> None:
    """Draw a button that looks for the sites that pay, the search while it runs, and its answer."""
    answer = _answer(session, TUNING)
    if isinstance(answer, Tuning):
        _show_tuning(session, answer)


def start(session: Session, what: str) -> None:
    """Begin a search, on a workbench of its own: the visitor may go on switching passes."""
    with all_or_nothing(session), session.at_work:
        check_runs(session)
        bench, is_here = session.workbench, presence()
        args, kwargs = session.opened.inputs
        mine, choices, edits = bench.another(), bench.choices, bench.edits

        def on(work: Callable[[Workbench, Progress], Any]) -> Callable[[Progress], Any]:
            def worked(progress: Progress) -> Any:
                mine.choose(choices, edits)
                return work(mine, progress)

            return worked

        def look(wb: Workbench, progress: Progress) -> Bisection:
            question: Question = "latency" if what == "latency" else "outputs"
            return bisect(wb, args, kwargs, question=question, budget=BUDGET, on_progress=progress)

        def tune(wb: Workbench, progress: Progress) -> Tuning:
            return autotune(wb, args, kwargs, budget=BUDGET, on_progress=progress)

        line = MEASUREMENTS if what in LATENCY_SEARCHES else None
        keep(session, what, Job(killable(on(tune if what == TUNING else look), demands(session)), is_here, line))


def _answer(session: Session, what: str) -> Any:
    return answer_of(session, what, _RUNNING[what], label=_LABELS[what],
                     help=f"{_TOLD[what]}. It takes {BUDGET:.0f} s at most.",
                     disabled=not session.workbench.is_changed, on_click=start, args=(session, what))  # fmt: skip


def _show_bisection(session: Session, found: Bisection) -> None:
    st.markdown(escaped(found.verdict))
    if found.groups:
        with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
            for place in found.culprits[:MANY]:
                st.button(code(place.site), key=f"blamed {place}", type="tertiary", help="Show this node",
                          on_click=acting(session, go_to), args=(session, place.site))  # fmt: skip
        many = counted(len(found.culprits), "site")
        st.button(f"Switch {many} off", key=f"without {found.question}", type="primary",
                  on_click=acting(session, choose), args=(session, found.choices))  # fmt: skip
    rows = [{"sites on": len(one.sites), "fails": one.fails, "verdict": one.verdict} for one in found.tried]
    st.dataframe(rows, key=f"runs {found.question}", hide_index=True)


def _show_tuning(session: Session, found: Tuning) -> None:
    st.markdown(escaped(found.verdict))
    left = sum(len(one.sites) for one in found.sites) - found.kept
    if found.choices != session.workbench.choices:
        st.button(f"Switch {counted(left, 'site')} off", key="keep what pays", type="primary",
                  on_click=acting(session, choose), args=(session, found.choices))  # fmt: skip
    if found.sites:
        st.dataframe(found.frame, key="tuned sites", hide_index=True)
    st.caption(
        "Microseconds of CPU time that a call takes less, with the 95 % interval: of the nodes that a site rewrites, "
        "and of those that read them as well. Alike sites share a line. This holds for this machine and these inputs."
    )
