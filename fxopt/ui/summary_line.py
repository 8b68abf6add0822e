"""The line above the graph: its figures before and now, or in two states that are compared. A click opens the table."""

from __future__ import annotations

import html
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import get_args

import streamlit as st

from fxopt.evidence import parameter_table
from fxopt.evidence.difference import Difference
from fxopt.evidence.in_words import two_digits
from fxopt.ui.costs import costs_of, counted_unit, known_flops
from fxopt.ui.memo import RECENT
from fxopt.ui.panel import panel
from fxopt.ui.parameters_tab import parameters_of
from fxopt.ui.session import Session
from fxopt.ui.view_state import Shown
from fxopt.ui.waiting import POLL_SECONDS
from fxopt.workbench.summary import Summary, summary_of

_NOT_BETWEEN = "It is told against the original alone, not between two entries of the time line."


@dataclass(frozen=True)
class Figure:
    """One figure of the line: its name, its value before and now in words, and the tab that has its table."""

    name: str
    tab: str
    before: str = ""
    now: str = ""
    """Empty where the figure is unknown yet."""
    title: str = ""


def summary_line(session: Session) -> None:
    """Draw the line."""
    panel(session, "summary panel", _draw, _shown_by_line)


def _shown_by_line(session: Session) -> Hashable:
    done = _is_done(session.comparison), _is_done(session.measurement)
    return session.workbench.choices, session.since, counted_unit(), *done


def _is_done(work: object) -> Hashable:
    job = getattr(work, "job", None)
    return None if job is None else (id(job), job.running)


def _draw(session: Session) -> None:
    figures = [*_counts(session), *_sizes(session), _flops(session), _error(session), _latency(session)]
    compared = session.compared_acts
    of = "Before and now" if compared is None else f"After act {compared.start} and after act {compared.end}"
    st.html(f'<div class="summary" role="group" aria-label="{of}">{"".join(map(_told, figures))}</div>')
    if _is_counting(session):  # behind the line, which else would move by a place, and stand there twice for a moment
        st.fragment(_until_counted, run_every=POLL_SECONDS)(session)


def _told(figure: Figure) -> str:
    changed = figure.now and figure.before not in ("", figure.now)
    before = f"{html.escape(figure.before)} → " if changed else ""
    value = f"{before}<strong>{html.escape(figure.now)}</strong>" if figure.now else "?"
    manner = "changed" if changed else "known" if figure.now else "unknown"
    title = html.escape(f"{figure.title} A click opens the table.".strip(), quote=True)
    return (
        f'<button type="button" class="figure {manner}" data-evidence="{figure.tab}" title="{title}">'
        f"<span>{html.escape(figure.name)}</span> <span>{value}</span></button>"
    )


def _counts(session: Session) -> Iterator[Figure]:
    since = session.since
    if since is None:
        before = session.opened.once.answer("summary", lambda: summary_of(session.graph_of("Original")))
    else:
        before = session.memo.remember("summary before", since, lambda: summary_of(session.graph_before), RECENT)
    now = session.memo.once("summary", lambda: summary_of(session.graph_of("Now")))
    yield Figure("nodes", "Nodes", f"{before.nodes:,}", f"{now.nodes:,}", _kinds(before, now))
    told = "Calls of linear layers, convolutions, matrix products and attention."
    yield Figure("matrix products", "Nodes", f"{before.products:,}", f"{now.products:,}", told)


def _kinds(before: Summary, now: Summary) -> str:
    """Return the calls by kind, those that changed first."""
    kinds = sorted({**before.calls, **now.calls}, key=lambda kind: before.calls.get(kind, 0) == now.calls.get(kind, 0))
    pairs = [(kind, before.calls.get(kind, 0), now.calls.get(kind, 0)) for kind in kinds]
    told = (f"{kind} {old} → {new}" if old != new else f"{kind} {new}" for kind, old, new in pairs)
    return f"Calls: {'; '.join(told)}."


def _sizes(session: Session) -> Iterator[Figure]:
    key = session.since, session.workbench.choices
    graphs = session.graph_before, session.graph_of("Now")
    table = (
        session.memo.remember("parameters between", key, lambda: parameter_table(*graphs), RECENT)
        if session.since is not None
        else parameters_of(session)
    )
    before, now = table.before, table.after
    yield Figure("parameters", "Parameters", _short(before.parameters), _short(now.parameters), f"{now.parameters:,}.")
    old, new = (one.parameter_bytes + one.buffer_bytes for one in (before, now))
    yield Figure("weights", "Parameters", f"{_short(old)}B", f"{_short(new)}B", f"{new:,} bytes.")


def _short(amount: int) -> str:
    """Return a number in four digits at most, with a prefix.

    >>> _short(712), _short(109_482_240), _short(21_000)
    ('712 ', '109.5 M', '21 k')
    """
    for power, prefix in ((9, "G"), (6, "M"), (3, "k")):
        if amount >= 10**power:
            return f"{amount / 10**power:.4g} {prefix}"
    return f"{amount} "


def _flops(session: Session) -> Figure:
    told = "Counted once a click here opens the tab Cost, or a cost of FLOPs or bytes is chosen below the graph."
    moved = counted_unit() == "byte" and session.since is None
    costs = [costs_of(session, shown, unit="byte") for shown in get_args(Shown)] if moved else known_flops(session)
    if costs is None or None in costs:
        return Figure("FLOPs", "Cost", title=told)
    before, now = (one.told(one.of_all(one.parts)).removesuffix("FLOP") for one in costs if one is not None)
    return Figure("moved" if moved else "FLOPs", "Cost", before, now)


def _is_counting(session: Session) -> bool:
    unit = counted_unit()
    return unit in ("FLOP", "byte") and None in [costs_of(session, shown, unit=unit) for shown in get_args(Shown)]


def _until_counted(session: Session) -> None:
    """Draw the page anew once the FLOPs are counted: the tab that counts them is drawn after this line."""
    if not _is_counting(session):
        st.rerun()


def _error(session: Session) -> Figure:
    told = "The largest error of an output against the original; compared in the tab Numerics."
    if session.since is not None:
        return Figure("error", "Numerics", title=f"{told} {_NOT_BETWEEN}")
    done = session.comparison
    report = done.job.result if done is not None and done.choices == session.workbench.choices else None
    if not session.workbench.is_changed:
        return Figure("error", "Numerics", now="none", title="Both graphs are the same.")
    found = [] if report is None else [one.difference for one in report.outputs if one.difference is not None]
    if report is None or not found:
        return Figure("error", "Numerics", title=told)
    return Figure("error", "Numerics", now=_apart(max(found, key=lambda one: one.max_abs)), title=f"{report.verdict}.")


def _apart(difference: Difference) -> str:
    return "none, the same bits" if difference.identical else two_digits(difference.max_abs)


def _latency(session: Session) -> Figure:
    told = "Measured in the tab Latency."
    if session.since is not None:
        return Figure("latency", "Latency", title=f"{told} {_NOT_BETWEEN}")
    done = session.measurement
    report = done.job.result if done is not None and done.choices == session.workbench.choices else None
    if report is None or not report.rounds:
        return Figure("latency", "Latency", title=told)
    if not report.shown:
        return Figure("latency", "Latency", now="no difference shown", title=f"{report.verdict}.")
    times = [f"{milliseconds:.3g} ms" for milliseconds in (report.before_ms, report.after_ms)]
    return Figure("latency", "Latency", times[0], times[1], f"{report.verdict}.")
