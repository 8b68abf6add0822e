"""A comparison as one HTML file: the graphs as on the page, with player and inspector, reasons and tables."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from fxopt.evidence import LatencyReport, NumericsReport, parameter_table
from fxopt.ui.marks import legend_of, marks_of, sites_to_play
from fxopt.ui.node_facts import facts_of
from fxopt.ui.standalone import standalone_html
from fxopt.view import GraphView, Side, default_unfolded, layout, layout_both, visible
from fxopt.view.marks import resolve_sides
from fxopt.view.revealing import opening_for
from fxopt.view.steps import steps_of
from fxopt.workbench import PassState, Workbench
from fxopt.workbench.representatives import representatives

_NODE = ("name", "op", "target", "module", "shape", "dtype")


def comparison_html(
    wb: Workbench,
    title: str = "Comparison",
    *,
    numerics: NumericsReport | None = None,
    latencies: Sequence[LatencyReport] = (),
) -> str:
    """Return a page that shows the original graph and the one as it is now in one picture, opened where it has changed.

    It plays the rewrite, site by site, and an inspector has the facts of the selected node, as on the page. Below
    stand, for each pass, its sites and near misses with their reasons, then numerics and latencies, where they are
    given, the parameters before and now, and the nodes.

    It opens from disk: it needs no server and asks no network.

    Args:
        title: of the page.
        numerics: of these two graphs: `fxopt.evidence.compare_outputs`.
        latencies: of these two graphs: `fxopt.evidence.measure`.
    """
    views = GraphView.of(wb.pristine), GraphView.of(wb.current)
    opened = default_unfolded(views[0])
    changes = representatives(wb.states, *views) if wb.is_changed else ()
    opened |= opening_for(list(views), [one.nodes for one in changes], opened).modules
    before, after = (visible(view, opened) for view in views)
    picture = layout_both(layout(before), after)
    both, states = picture.comparison, wb.states
    old = both.seen_from(Side.BEFORE) if both is not None else picture.graph
    sides = [(marks_of(states, original=True), old), (marks_of(states), picture.graph)]
    steps = steps_of(sites_to_play(states), old, picture.graph) if wb.is_changed else ()
    facts = facts_of(wb, [item.name for item in picture.graph.items])
    marks = resolve_sides(sides, [state.name for state in states])
    parameters = parameter_table(wb.pristine, wb.current).frame
    nodes = [[getattr(node, one) for one in _NODE] for node in views[1].nodes]
    below = "".join([
        *map(_pass, (state for state in states if state.on or state.sites or state.misses)),
        *([numerics_html(numerics)] if numerics is not None else []),
        *map(latency_html, latencies),
        details(f"Parameters of {len(parameters):,} modules", table_of(parameters)),
        details(f"{len(nodes):,} nodes as they are now", table(_NODE, nodes)),
    ])  # fmt: skip
    return standalone_html(
        picture, marks, title=title, side="both", below=below, legend=legend_of(states), steps=steps, facts=facts
    )


def _pass(state: PassState) -> str:
    sites = [[site.site, "on" if site.on else "off", site.explanation] for site in state.sites]
    misses = [[miss.site, miss.reason, miss.remedy] for miss in state.misses]
    content = f"<p>{html.escape(state.pass_.summary)}</p>"
    if sites:
        content += table(("site", "", "what it does"), sites)
    if misses:
        content += table(("near miss", "reason", "remedy"), misses)
    told = f"{state.name}: {state.sites_on} of {len(sites)} sites on, {len(misses)} left alone"
    return details(told, content, is_open=state.on)


def numerics_html(report: NumericsReport) -> str:
    """Return the verdict on the outputs, with the figures of each, as a part of a page."""
    content = table_of(report.frame) if report.outputs else ""
    content += "".join(f"<p>Not covered: {html.escape(one)}</p>" for one in report.not_covered)
    return details(f"Outputs: {report.verdict}", content, is_open=True)


def latency_html(report: LatencyReport) -> str:
    """Return the verdict on the latency, with its figures and rounds, as a part of a page."""
    kind = "Wall time" if report.is_wall else "CPU time"
    facts = [
        ("original", f"{report.before_ms:.4g} ms"),
        ("now", f"{report.after_ms:.4g} ms"),
        ("original / now", f"{report.ratio:.3f} [{report.low:.3f}, {report.high:.3f}]"),
        ("original against itself", f"[{report.control_low:.3f}, {report.control_high:.3f}]"),
        ("rounds", f"{len(report.rounds)} of {report.calls_per_sample} calls"),
        ("threads", str(report.threads)),
        ("machine", report.machine),
        *([("stopped early", report.stopped)] if report.stopped else []),
    ]
    content = table(("", "one call"), facts) if report.rounds else f"<p>{html.escape(report.stopped or '')}</p>"
    if report.rounds:
        content += details(f"{len(report.rounds)} rounds", table_of(report.frame))
    return details(f"{kind}: {report.verdict}", content, is_open=True)


def table_of(frame: pd.DataFrame) -> str:
    """Return a frame as a table, with numbers of four digits."""
    rows = [[_short(value) for value in row] for row in frame.itertuples(index=False, name=None)]
    return table(list(map(str, frame.columns)), rows)


def _short(value: Any) -> str:
    return "" if value is None or value is pd.NA else f"{value:.4g}" if isinstance(value, float) else str(value)


def details(summary: str, content: str, is_open: bool = False) -> str:
    """Return a part of a report that opens at a click on its summary."""
    return f"<details{' open' if is_open else ''}><summary>{html.escape(summary)}</summary>{content}</details>"


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table; its cells are texts, whatever they hold."""
    head = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
