"""Costs of nodes as the visitor chose to see them: one cost, and the critical path by it."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from fxopt.core import shared_copy
from fxopt.evidence import Costs, CriticalPath, critical_path, parameter_costs, work_costs
from fxopt.evidence.costs import Unit
from fxopt.ui.foreseen import PICTURES
from fxopt.ui.graph_component import Bars, Way
from fxopt.ui.job import Job
from fxopt.ui.panel import redraw
from fxopt.ui.session import Session, Shown
from fxopt.ui.waiting import result_soon
from fxopt.view import VisibleGraph
from fxopt.view.costs import bars, boxes_along

UNITS: Mapping[str, Unit | None] = {
    "Cost: none": None,
    "Cost: parameters": "parameter",
    "Cost: FLOPs": "FLOP",
    "Cost: bytes moved": "byte",
}
WORDS: Mapping[Unit, str] = {"parameter": "parameters", "FLOP": "FLOPs", "byte": "bytes moved"}

_HELP = (
    "A bar in each box: its cost, against the box that costs the most. FLOPs are counted from the shapes: a "
    "multiplication and an addition are two. Bytes moved are what each operation reads and writes."
)
_PATH_HELP = "The way from an input to the output on which the boxes cost the most: what a faster model has to shorten"


def chosen_costs() -> tuple[Unit | None, bool]:
    """Return the cost that the visitor has chosen, if any, and whether the critical path by it is shown."""
    unit = UNITS.get(st.session_state.get("cost", ""))
    return unit, unit is not None and bool(st.session_state.get("critical path"))


def cost_controls(session: Session) -> None:
    """Draw the choice of the cost, and of the critical path by it."""
    chosen = st.selectbox("Cost", UNITS, key="cost", help=_HELP, label_visibility="collapsed", width=170,
                          on_change=redraw, args=(session,))  # fmt: skip
    st.checkbox(
        "Critical path",
        key="critical path",
        disabled=UNITS[chosen] is None,
        help=_PATH_HELP if UNITS[chosen] is not None else "Choose a cost first",
        on_change=redraw,
        args=(session,),
    )


def costs_of(session: Session, shown: Shown, *, waiting: bool = False) -> Costs | None:
    """Return the chosen cost of each node of one of the two graphs; None before it is chosen and counted.

    With `waiting`, a line says so meanwhile, and the page is drawn again once it is counted.
    """
    unit, _ = chosen_costs()
    if unit is None:
        return None
    if not session.workbench.is_changed:
        shown = "Original"
    key = session.workbench.choices if shown == "Now" else None
    if unit == "parameter":
        return session.remember(f"parameters of {shown}", key, lambda: parameter_costs(session.graph_of(shown)))
    # As many as there are pictures: otherwise a predicted one would be painted without bars while they are counted
    # anew.
    job = session.remember(f"work of {shown}", key, lambda: _counting(session, shown), answers=PICTURES)
    counted = job.result if not waiting else result_soon(job, f"Counting {WORDS[unit]}")
    return counted and counted[unit == "byte"]


def _counting(session: Session, shown: Shown) -> Job[tuple[Costs, Costs]]:
    # A copy, which shares all weights: the visitor may go on switching passes.
    graph, (args, kwargs) = shared_copy(session.graph_of(shown)), session.opened.inputs
    return Job(lambda progress: work_costs(graph, args, kwargs))


def path_of(session: Session, shown: Shown) -> CriticalPath | None:
    """Return the critical path of one of the two graphs by the chosen cost, if the visitor asked for it."""
    costs, (_, wanted) = costs_of(session, shown), chosen_costs()
    if costs is None or not wanted:
        return None
    key = (session.workbench.choices if shown == "Now" else None, costs.unit)
    return session.remember(f"critical path of {shown}", key, lambda: critical_path(session.graph_of(shown), costs))


def drawn_costs(session: Session, shown: Shown, graph: VisibleGraph) -> tuple[Bars, Way | None]:
    """Return bars and critical path as the graph component takes them, by the boxes of `graph`."""
    costs, path = costs_of(session, shown), path_of(session, shown)
    if costs is None:
        return {}, None
    told = f"critical path: {path.share:.0%} of the {WORDS[costs.unit]}" if path is not None else ""
    return bars(costs.parts, graph, costs.told), (boxes_along(path.nodes, graph), told) if path is not None else None
