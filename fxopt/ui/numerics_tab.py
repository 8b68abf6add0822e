"""Numerics tab: the outputs of the graph as it is now, compared with those of the original."""

from __future__ import annotations

import streamlit as st

from fxopt.errors import FxoptError
from fxopt.evidence import NumericsReport, compare_outputs, stopping_unless
from fxopt.models import Inputs
from fxopt.ui.markdown import escaped
from fxopt.ui.open_model import OpenModel
from fxopt.ui.presence import presence
from fxopt.ui.session import Session

SMALL = 5_000_000
"""Up to so many parameters, outputs are compared automatically."""


def numerics_tab(session: Session) -> None:
    bench = session.workbench
    if not bench.is_changed:
        st.markdown("No site is on, so there is nothing to compare.")
        return
    small = sum(weight.numel() for weight in session.opened.model.parameters()) <= SMALL
    if not small and session.compared != bench.choices:
        st.markdown(
            "Runs the original, the graph as it is now, and the original in float64 (which takes twice its memory)."
        )
        st.button("Compare outputs", key="compare", type="primary", on_click=session.ask_to_compare)
        return
    with st.spinner("Running both, and the original in float64 …", show_time=True):
        try:
            report = session.remember("numerics", bench.choices, lambda: _compared(session))
        except FxoptError as error:
            st.error(escaped(str(error)))
            return
    _show(report)


def _compared(session: Session) -> NumericsReport:
    weights = sum(weight.numel() for weight in session.opened.model.parameters())
    session.check_demand(factor=2, beside=8 * weights)  # as the original takes it in float64
    with stopping_unless(presence()):
        return compare_outputs(session.workbench.pristine, session.workbench.current, _inputs(session.opened))


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
