"""Other inputs for the numerics: a button that tries them, the run beside the page, and a verdict for each."""

from __future__ import annotations

import streamlit as st

from fxopt.core import shared_copy
from fxopt.evidence import stopping_unless
from fxopt.evidence.sweep import Sweep, sweep
from fxopt.evidence.variants import Variant, left_as_they_are, variants
from fxopt.ui.example import check_runs, demands
from fxopt.ui.fault import all_or_nothing
from fxopt.ui.job import Job, Progress
from fxopt.ui.large import killable
from fxopt.ui.markdown import escaped
from fxopt.ui.presence import presence
from fxopt.ui.searches import answer_of, keep
from fxopt.ui.session import Session

KEY = "inputs"
_FACTOR = 2
"""The memory of a run in float64."""


def other_inputs(session: Session) -> None:
    """Draw the button, the run while it lasts, and its answer where it is about the sites that are on now."""
    told = "Other sizes and draws, zeros, large, tiny and denormal numbers, an infinity, a NaN"
    answer = answer_of(session, KEY, "Trying other inputs", label="Try other inputs", help=told, on_click=start,
                       args=(session,))  # fmt: skip
    if answer is not None:
        _show(*answer)


def start(session: Session) -> None:
    """Begin, on a copy of the graph: the visitor may go on switching passes."""
    with all_or_nothing(session), session.at_work:
        weights = sum(weight.numel() for weight in session.opened.model.parameters())
        check_runs(session, factor=_FACTOR, beside=8 * weights)
        bench, (args, kwargs) = session.workbench, session.opened.inputs
        before, after = bench.pristine, shared_copy(bench.current)
        tried = (*variants(args, kwargs), *_sizes(session))

        def work(progress: Progress) -> tuple[Sweep, tuple[str, ...]]:
            share = 0.0

            def told(now: float) -> bool:
                nonlocal share
                share = now
                return progress(now)

            with stopping_unless(lambda: progress(share)):
                return sweep(before, after, tried, on_progress=told), left_as_they_are(args, kwargs)

        keep(session, KEY, Job(killable(work, demands(session)), presence()))


def _sizes(session: Session) -> list[Variant]:
    """Return inputs of other sizes, where these are free in the graph."""
    opened, found = session.opened, []
    if "batch" in opened.report.free:
        batch = 1 if opened.batch > 1 else 2
        found.append(Variant(f"batch {batch}", opened.source.inputs(opened.model, batch, opened.sequence)))
    if "sequence" in opened.report.free and opened.sequence:
        half = max(1, opened.sequence // 2)
        found.append(Variant(f"sequence {half}", opened.source.inputs(opened.model, opened.batch, half)))
    return found


def _show(found: Sweep, fixed: tuple[str, ...]) -> None:
    told = {True: st.success, None: st.info, False: st.error}[found.fits]
    told(escaped(found.verdict))
    st.dataframe(found.frame, key="sweep table", hide_index=True)
    for missing in (*found.not_covered, *(f"{name} is the same in all of them" for name in fixed)):
        st.caption(f"Not covered: {escaped(missing)}")
