"""Numerics tab: the outputs of the graph as it is now, compared with those of the original."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from contextlib import nullcontext
from functools import partial
from typing import TypeVar

import streamlit as st

from fxopt.core import Exactness, shared_copy
from fxopt.errors import FxoptError
from fxopt.evidence import Divergence, NumericsReport, compare_outputs, first_difference, stopping_unless
from fxopt.evidence.depth import DepthReport, error_by_depth
from fxopt.models import Inputs
from fxopt.ui.charts import depth_chart, picked
from fxopt.ui.example import check_runs, demands
from fxopt.ui.going import go_to
from fxopt.ui.job import GraphJob, Job, Progress
from fxopt.ui.large import is_large, killable
from fxopt.ui.markdown import code, counted, escaped
from fxopt.ui.one_in_line import Line
from fxopt.ui.open_model import OpenModel
from fxopt.ui.panel import acting, work_ended
from fxopt.ui.presence import presence
from fxopt.ui.session import Session
from fxopt.ui.site_search import blame
from fxopt.ui.sweep import KEY, other_inputs
from fxopt.ui.tab import Tab
from fxopt.ui.waiting import POLL_SECONDS, result_soon
from fxopt.workbench.states import SiteState

T = TypeVar("T")

SMALL = 5_000_000
"""Up to so many parameters, outputs are compared automatically."""
COMPARISONS = Line(at_once=os.cpu_count() or 1)
"""Of comparisons in this process: of many at once, each would wait for all others at every call of torch."""


def _draw(session: Session) -> None:
    session.listen("depth chart", _obey)
    begun = session.comparison
    if begun is not None and begun.job.running and begun.choices != session.workbench.choices:
        session.stop_comparing()
    if not session.workbench.is_changed:
        st.markdown("No site is on: both graphs are the same.")
        return
    if not _is_wanted(session):
        st.markdown(
            "Runs the original, the graph as it is now, and the original in float64 (which takes twice its memory)."
        )
        st.button(
            "Compare outputs", key="compare", type="primary", on_click=acting(session, ask_to_compare), args=(session,)
        )
        return
    try:
        job = _comparison(session).job
        told = "Running both, and the original in float64"
        report = result_soon(job, told, can_cancel=True, ended=partial(work_ended, session))
    except FxoptError as error:
        st.error(escaped(str(error)))
        return
    if report is not None:
        if session.comparison is not begun:  # the line above the graph was drawn before
            st.fragment(work_ended, run_every=POLL_SECONDS)(session)
        _show(report)
        if report.fits is False and (names := _approximate(session)):
            st.caption(f"{' and '.join(names)}: approximate, so that a difference is meant; it is for you to judge.")
        if not report.identical and report.failure is None:
            _where(session)
            _by_depth(session)
        if report.fits is False:
            blame(session, "outputs")
        other_inputs(session)


def ask_to_compare(session: Session) -> None:
    """Compare outputs at the choices of passes as they are, however large the model is."""
    session.stop_comparing()
    session.compared = session.workbench.choices


def _is_wanted(session: Session) -> bool:
    """Return whether outputs are to be compared: the visitor asked for it, or the model is small; not once canceled."""
    begun = session.comparison
    if begun is not None and begun.choices == session.workbench.choices:
        return not begun.job.is_cancelled
    return _weights(session) <= SMALL or session.compared == session.workbench.choices


def _weights(session: Session) -> int:
    return sum(weight.numel() for weight in session.opened.model.parameters())


def _comparison(session: Session) -> GraphJob[NumericsReport]:
    """Return the comparison for the choices as they are. It runs on a copy: the visitor may go on switching passes."""
    bench, begun = session.workbench, session.comparison
    if begun is not None and begun.choices == bench.choices:
        return begun
    session.stop_comparing()
    check_runs(session, factor=2, beside=8 * _weights(session))  # as the original takes it in float64
    before, after, inputs = bench.pristine, shared_copy(bench.current), _inputs(session.opened)
    job = _begun(session, "numerics", lambda: compare_outputs(before, after, inputs), presence())
    session.comparison = GraphJob(bench.choices, job)
    return session.comparison


def _begun(session: Session, question: str, compare: Callable[[], T], wanted: Callable[[], bool]) -> Job[T]:
    """Begin to compare both graphs. It is done once for all visitors with the same choices, and a few at a time."""
    runs, shared = demands(session), session.memo.sharing(question)
    is_beside = any(map(is_large, runs))

    def stopping(progress: Progress) -> T:
        with stopping_unless(lambda: progress(0)):
            return compare()

    comparing = killable(stopping, runs)

    def in_turn(progress: Progress) -> T:
        with nullcontext() if is_beside else COMPARISONS.turn(object(), lambda: progress(0)):
            return comparing(progress)

    return Job(lambda progress: shared(lambda: in_turn(progress)), wanted)


def _inputs(opened: OpenModel) -> list[Inputs]:
    """Return the example, and another batch if the batch is free."""
    others = [opened.inputs]
    if "batch" in opened.report.free:
        batch = 1 if opened.batch > 1 else 2
        others.append(opened.source.inputs(opened.model, batch, opened.sequence))
    return others


def _show(report: NumericsReport) -> None:
    text = escaped(report.verdict)
    if report.fits:
        st.success(text, icon=":material/check:")
    elif report.fits is None:
        st.info(text)
    else:
        st.error(text, icon=":material/error:")
    st.caption(
        "A difference is explained by rounding where the error against float64 is at most 4 times the original's own, "
        "plus 32 units of rounding at the output's scale."
    )
    if report.outputs:
        st.dataframe(report.frame, key="numerics table", hide_index=True)
    for missing in report.not_covered:
        st.caption(f"Not covered: {escaped(missing)}")


def _approximate(session: Session) -> list[str]:
    """Return the names of the passes that are on at a site where they say that they are approximate."""
    on = [state for state in session.workbench.states if any(site.on and _is_approximate(site) for site in state.sites)]
    return [escaped(session.called(state.name)) for state in on]


def _is_approximate(site: SiteState) -> bool:
    return site.exactness is Exactness.APPROXIMATE


def _where(session: Session) -> None:
    """Name the first node whose values differ, with a button that leads to it."""
    bench = session.workbench
    before, after, (args, kwargs) = bench.pristine, shared_copy(bench.current), session.opened.inputs

    def work() -> tuple[Divergence | None]:
        return (first_difference(before, after, args, kwargs),)

    job = _while_it_stands(session, "first difference", work)
    found = _answer_soon(session, job, "Looking for the first node that differs")
    if found is None:
        return
    [first] = found
    if first is None:
        st.caption("No node of both graphs differs on the example input.")
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
        st.markdown("The first node that differs:", width="content")
        st.button(code(first.node), key="first difference", type="tertiary", help="Show this node",
                  on_click=acting(session, go_to), args=(session, first.node))  # fmt: skip
        apart = first.report.verdict.partition(";")[0]
        told = "; ".join([apart, *bench.story(first.node, named=session.called)])
        st.caption(f"{escaped(told)}. {counted(first.agreeing, 'node')} before it agree bit for bit.")


def _while_it_stands(session: Session, question: str, compare: Callable[[], T]) -> Job[T]:
    """Return the job that compares the graphs as they are now, which ends where the visitor switches passes."""
    bench, key, is_here = session.workbench, session.workbench.choices, presence()
    return session.memo.remember(
        question, key, lambda: _begun(session, question, compare, lambda: is_here() and bench.choices == key)
    )


def _answer_soon(session: Session, job: Job[T], told: str) -> T | None:
    """Return the answer of a job, if it has one at once; a line says why not."""
    try:
        return result_soon(job, told, ended=partial(work_ended, session))
    except FxoptError as error:
        st.caption(escaped(f"{told}: {error}"))
        return None


def _by_depth(session: Session) -> None:
    """Draw the error of each node of both graphs, with its course in words and as a table."""
    bench = session.workbench
    before, after, (args, kwargs) = bench.pristine, shared_copy(bench.current), session.opened.inputs
    rewritten = {name for state in bench.states for site in state.sites if site.on for name in
                 (*site.changed, *site.created)}  # fmt: skip

    def work() -> DepthReport:
        return error_by_depth(before, after, args, kwargs, rewritten=rewritten)

    job = _while_it_stands(session, "error by depth", work)
    report = _answer_soon(session, job, "Comparing node by node")
    if report is None or not report.nodes:
        return
    told = report.verdict
    others = f" {counted(report.others, 'node')} have no counterpart of the same shape." if report.others else ""
    st.caption(
        f"{escaped(told[0].upper() + told[1:])}.{others} A node that a pass rewrote, or one inside of a rewrite, may "
        "return another value by design. Click one to go to it."
    )
    depth_chart(session, report)
    numbers = st.expander("The numbers", key="numbers by depth", on_change="rerun")
    if numbers.open:
        numbers.dataframe(report.frame, key="table by depth", hide_index=True)


def _obey(session: Session) -> None:
    """Go to the node that was clicked in the chart."""
    name = picked("depth chart", "node")
    if name is not None and name in session.view_of("Now").by_name:
        go_to(session, name)


def _shown(session: Session) -> Hashable:
    return session.workbench.choices, session.compared, *map(session.searches.get, ("outputs", KEY))


NUMERICS = Tab("Numerics", _draw, _shown)
