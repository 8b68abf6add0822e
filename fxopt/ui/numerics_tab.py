"""Numerics tab: the outputs of the graph as it is now, compared with those of the original."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from fxopt.core import shared_copy
from fxopt.errors import FxoptError
from fxopt.evidence import NumericsReport, compare_outputs, stopping_unless
from fxopt.models import Inputs
from fxopt.ui.job import Job, Progress
from fxopt.ui.markdown import escaped
from fxopt.ui.open_model import OpenModel
from fxopt.ui.presence import presence
from fxopt.ui.session import Session
from fxopt.ui.waiting import result_soon
from fxopt.workbench import Choice

SMALL = 5_000_000
"""Up to so many parameters, outputs are compared automatically."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """A comparison of outputs, with the choices of passes that it is for."""

    choices: tuple[Choice, ...]
    job: Job[NumericsReport]


def numerics_tab(session: Session) -> None:
    begun: Comparison | None = session.comparison
    if begun is not None and begun.job.running and begun.choices != session.workbench.choices:
        session.stop_comparing()
    if not session.workbench.is_changed:
        st.markdown("No site is on, so there is nothing to compare.")
        return
    if not _is_wanted(session):
        st.markdown(
            "Runs the original, the graph as it is now, and the original in float64 (which takes twice its memory)."
        )
        st.button("Compare outputs", key="compare", type="primary", on_click=session.ask_to_compare)
        return
    try:
        job = _comparison(session).job
        report = result_soon(job, "Running both, and the original in float64", can_cancel=True)
    except FxoptError as error:
        st.error(escaped(str(error)))
        return
    if report is not None:
        _show(report)


def _is_wanted(session: Session) -> bool:
    """Return whether outputs are to be compared: the visitor asked for it, or the model is small; not once canceled."""
    begun: Comparison | None = session.comparison
    if begun is not None and begun.choices == session.workbench.choices:
        return not begun.job.is_cancelled
    return _weights(session) <= SMALL or session.compared == session.workbench.choices


def _weights(session: Session) -> int:
    return sum(weight.numel() for weight in session.opened.model.parameters())


def _comparison(session: Session) -> Comparison:
    """Return the comparison for the choices as they are. It runs on a copy: the visitor may go on switching passes."""
    bench, begun = session.workbench, session.comparison
    if isinstance(begun, Comparison) and begun.choices == bench.choices:
        return begun
    session.stop_comparing()
    session.check_demand(factor=2, beside=8 * _weights(session))  # as the original takes it in float64
    before, after, inputs = bench.pristine, shared_copy(bench.current), _inputs(session.opened)

    def work(progress: Progress) -> NumericsReport:
        with stopping_unless(lambda: progress(0)):
            return compare_outputs(before, after, inputs)

    session.comparison = Comparison(bench.choices, Job(work, presence()))
    return session.comparison


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
