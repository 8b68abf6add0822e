"""Evidence of one site, on demand: its effect on the numbers and on the latency of the whole model."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import streamlit as st

from fxopt.errors import FxoptError
from fxopt.evidence import LatencyReport, SiteReport, measure, site_report, stopping_unless
from fxopt.evidence.in_words import power_of_ten
from fxopt.evidence.output_report import OutputReport
from fxopt.ui.example import check_runs, demands
from fxopt.ui.fault import all_or_nothing
from fxopt.ui.job import Job, Progress
from fxopt.ui.large import killable
from fxopt.ui.latency_tab import BRACKETS
from fxopt.ui.markdown import code, counted, escaped
from fxopt.ui.one_in_line import MEASUREMENTS
from fxopt.ui.presence import presence
from fxopt.ui.progress import watch
from fxopt.ui.session import Session
from fxopt.ui.waiting import result_soon
from fxopt.workbench.site_trial import SiteTrial, site_trial

KEPT = 16
"""The most sites whose last results are kept."""

MANY = 4
"""The most outputs of a site that are listed, the furthest apart first."""


@dataclass(eq=False)
class SiteEvidence:
    """A request for evidence of one site, at the choices of passes of that time."""

    trial: SiteTrial
    error: Job[SiteReport] | None = None
    latency: Job[LatencyReport] | None = None


def site_evidence(session: Session, pass_name: str, site: str) -> None:
    """Draw the known evidence of the site, and buttons for the rest."""
    shown = st.expander("Error and latency", key=f"evidence of {pass_name} at {site}", on_change="rerun")
    if not shown.open:
        return
    key = (session.workbench.choices, pass_name, site)
    found = _all(session).get(key)
    with shown:
        if found is None or found.error is None:
            _button("Measure the error", session, key, "error")
        else:
            _error(found, found.error)
        if found is None or found.latency is None:
            _button("Measure the latency", session, key, "latency")
        elif found.latency.running:
            watch(found.latency, f"of {pass_name} at {site}")
        else:
            _latency(found.latency)
            _button("Measure the latency again", session, key, "latency")
        if found is not None and found.trial.resting:
            resting = [(session.called(name), other) for name, other in found.trial.resting[:2]]
            named = "; ".join(f"{escaped(name)} at {code(other)}" for name, other in resting)
            more = f" and {len(found.trial.resting) - 2} more" if len(found.trial.resting) > 2 else ""
            st.caption(f"Together with what rests on it: {named}{more}.")


def _button(label: str, session: Session, key: tuple[Hashable, str, str], what: str) -> None:
    told = {
        "error": "Runs the example with this site off and on, all else as it is now",
        "latency": "Times the whole model with this site off and on, in pairs",
    }
    _, pass_name, site = key
    st.button(label, key=f"{what} of {pass_name} at {site}", help=told[what], on_click=start, args=(session, key, what))


def _all(session: Session) -> dict[Hashable, SiteEvidence]:
    return session.memo.remember("site evidence", None, dict[Hashable, SiteEvidence])


def start(session: Session, key: tuple[Hashable, str, str], what: str) -> None:
    """Start the job on copies, so that the visitor may go on switching passes."""
    with all_or_nothing(session):
        found, is_here = _all(session), presence()
        with session.at_work:
            check_runs(session)
            if key not in found:
                found[key] = SiteEvidence(site_trial(session.workbench, *key[1:]))
            while len(found) > KEPT:
                del found[next(iter(found))]
        of, (args, kwargs) = found[key], session.opened.inputs
        trial = of.trial

        def time_both(progress: Progress) -> LatencyReport:
            return measure(trial.off, trial.on, args, kwargs, on_progress=progress)

        def both_reported(progress: Progress) -> SiteReport:
            with stopping_unless(lambda: progress(0)):
                return site_report(trial.off, trial.on, trial.rewritten, args, kwargs)

        if what == "error":
            of.error = Job(killable(both_reported, demands(session)), is_here)
        else:
            of.latency = Job(killable(time_both, demands(session)), is_here, MEASUREMENTS)


def _error(found: SiteEvidence, job: Job[SiteReport]) -> None:
    try:
        report = result_soon(job, "Running the example with and without the site")
    except FxoptError as error:
        st.error(escaped(str(error)))
        return
    if report is None:
        return
    lines = [_told(one) for one in sorted(report.site, key=lambda one: one.closeness)]
    more = [f"and {counted(len(lines) - MANY, 'output')} more, no farther apart"] if len(lines) > MANY else []
    st.markdown("**What comes out of it**, on the example, with the site on against off")
    st.markdown("\n".join(f"- {line}" for line in [*lines[:MANY], *more]) or "- nothing that other nodes read")
    worst = min(report.model, key=lambda one: one.closeness, default=None)
    if worst is not None:
        st.markdown(f"**The output of the model**: {_apart(worst)}")


def _told(report: OutputReport) -> str:
    return f"{code(report.name)}: {_apart(report)}"


def _apart(report: OutputReport) -> str:
    """Return the distance of the two, in figures."""
    found = report.difference
    if found is None or found.unlike:
        return escaped(report.verdict)
    if found.identical:
        return "identical bits"
    ulp = f"{counted(found.max_ulp, 'ulp', 'ulp')}, " if found.max_ulp is not None else ""
    return (
        f"at most {ulp}{power_of_ten(found.max_abs)} absolute, {power_of_ten(found.max_rel)} relative; "
        f"{found.differing:,} of {found.elements:,} numbers differ, the largest is {found.scale:.2g}"
    )


def _latency(job: Job[LatencyReport]) -> None:
    if job.is_cancelled and job.result is None:
        return  # before its turn
    if job.error:
        st.error(escaped(job.error))
    elif job.result is not None:
        report = job.result
        st.markdown(f"**The whole model, with the site against without it**: {escaped(report.verdict)}")
        if report.rounds:
            st.caption(
                f"{report.before_ms:.2f} ms without it, {report.after_ms:.2f} ms with it, "
                f"{counted(len(report.rounds), 'round')}; the model without it against itself, the control, "
                f"{report.control_low:.2f} to {report.control_high:.2f}. {BRACKETS}"
            )
