"""Costs of nodes as the visitor chose to see them: one cost, and the critical path by it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial

import streamlit as st

from fxopt.core import FxoptError, shared_copy
from fxopt.evidence import (
    Costs,
    CriticalPath,
    critical_path,
    demand_of,
    node_times,
    parameter_costs,
)
from fxopt.evidence.costs import Unit
from fxopt.evidence.work import work_by_unit
from fxopt.ui.fault import MOST_TOLD, complain
from fxopt.ui.foreseen import PICTURES
from fxopt.ui.graph_component import Bars, Way
from fxopt.ui.job import Job, Progress
from fxopt.ui.large import killable
from fxopt.ui.limits import check_demand
from fxopt.ui.markdown import escaped
from fxopt.ui.one_in_line import MEASUREMENTS
from fxopt.ui.panel import redraw
from fxopt.ui.presence import presence
from fxopt.ui.session import Session
from fxopt.ui.view_state import Shown
from fxopt.ui.waiting import result_soon
from fxopt.view import VisibleGraph
from fxopt.view.cost_bars import bars, boxes_along

USUAL: Unit = "FLOP"
"""The cost that the tab Cost shows where none is chosen."""

_GRAPHS: Mapping[Shown, str] = {"Original": "the original", "Now": "the graph as it is now"}
_PATH_HELP = "The way from an input to the output on which the boxes cost the most: what a faster model has to shorten"


def chosen_costs() -> tuple[Unit | None, bool]:
    """Return the cost that the visitor has chosen, if any, and whether the critical path by it is shown."""
    unit = UNITS.get(st.session_state.get("cost", ""))
    return unit, unit is not None and bool(st.session_state.get("critical path"))


def counted_unit() -> Unit | None:
    """Return the cost that the visitor has chosen; while the tab Cost is open, FLOPs where none is."""
    unit, _ = chosen_costs()
    return unit if unit is not None or st.session_state.get("evidence") != "Cost" else USUAL


def cost_controls(session: Session) -> None:
    """Draw the choice of the cost, and of the critical path by it."""
    if st.session_state.get("cost", next(iter(UNITS))) not in UNITS:  # as an address may ask
        complain(f"The address asks for a cost that is not here: {escaped(str(st.session_state['cost'])[:MOST_TOLD])}")
        del st.session_state["cost"]
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


def costs_of(session: Session, shown: Shown, *, unit: Unit | None = None, waiting: bool = False) -> Costs | None:
    """Return a cost of each node of one of the two graphs, by default the chosen one; None before it is counted.

    With `waiting`, a line says so meanwhile, and the page is drawn again once it is counted.
    """
    unit = unit or chosen_costs()[0]
    if unit is None:
        return None
    return COSTS[unit].find(session, shown if session.workbench.is_changed else "Original", waiting)


def known_flops(session: Session) -> tuple[Costs, Costs] | None:
    """Return the FLOPs of the two compared graphs where they were counted, whatever is chosen since; None else."""
    now: Shown = "Now" if session.workbench.is_changed else "Original"
    kept = [(f"work of {shown}", _key(session, shown)) for shown in ("Original", now)]
    if session.since is not None and any(choice.on for choice in session.since):
        kept[0] = "work of Now", session.since
    jobs = [session.memo.known(*one) for one in kept]
    counted = [job.result for job in jobs if job is not None and job.result is not None]
    if len(counted) < len(jobs):
        return None
    before, after = (one["FLOP"] for one in counted)
    return before, after


def _key(session: Session, shown: Shown) -> Hashable:
    return session.workbench.choices if shown == "Now" else None


def _parameters(session: Session, shown: Shown, waiting: bool) -> Costs:
    return session.memo.remember(
        f"parameters of {shown}", _key(session, shown), lambda: parameter_costs(session.graph_of(shown))
    )


def _work(unit: Unit, session: Session, shown: Shown, waiting: bool) -> Costs | None:
    # As many as there are pictures: otherwise a predicted one would be painted without bars while they are counted
    # anew.
    job = session.memo.remember(
        f"work of {shown}", _key(session, shown), lambda: _counting(session, shown), answers=PICTURES
    )
    counted = job.result if not waiting else result_soon(job, f"Counting {COSTS[unit].words} of {_GRAPHS[shown]}")
    return None if counted is None else counted[unit]


def _times(session: Session, shown: Shown, waiting: bool) -> Costs | None:
    timed = session.memo.remember(
        f"times of {shown}", _key(session, shown), lambda: _timing(session, shown), answers=PICTURES
    )
    return timed.result if not waiting else result_soon(timed, f"Measuring each node of {_GRAPHS[shown]}")


def _counting(session: Session, shown: Shown) -> Job[Mapping[Unit, Costs]]:
    # A copy, which shares all weights: the visitor may go on switching passes.
    graph, (args, kwargs) = shared_copy(session.graph_of(shown)), session.opened.inputs
    return Job(lambda progress: work_by_unit(graph, args, kwargs))


def _timing(session: Session, shown: Shown) -> Job[Costs]:
    opened, graph = session.opened, shared_copy(session.graph_of(shown))
    args, kwargs = opened.inputs

    def timed(progress: Progress) -> Costs:
        return node_times(graph, args, kwargs, kernels=True, on_progress=progress).costs

    def work(progress: Progress) -> Costs:
        try:
            demand = demand_of(graph, args, kwargs)
            check_demand(f"{opened.source.title} at {opened.sizes}", demand)
            return killable(timed, [demand])(progress)
        except FxoptError as error:
            return Costs("nanosecond", {}, str(error))  # the graph stays, and the note below it tells

    return Job(work, presence(), MEASUREMENTS)


def path_of(session: Session, shown: Shown) -> CriticalPath | None:
    """Return the critical path of one of the two graphs by the chosen cost, if the visitor asked for it."""
    costs, (_, wanted) = costs_of(session, shown), chosen_costs()
    if costs is None or not wanted:
        return None
    key = (session.workbench.choices if shown == "Now" else None, costs.unit)
    return session.memo.remember(
        f"critical path of {shown}", key, lambda: critical_path(session.graph_of(shown), costs)
    )


def drawn_costs(session: Session, shown: Shown, graph: VisibleGraph) -> tuple[Bars, Way | None]:
    """Return bars and critical path as the graph component takes them, by the boxes of `graph`."""
    costs, path = costs_of(session, shown), path_of(session, shown)
    if costs is None:
        return {}, None
    told = f"critical path: {path.share:.0%} of the {WORDS[costs.unit]}" if path is not None else ""
    return bars(costs.parts, graph, costs.told), (boxes_along(path.nodes, graph), told) if path is not None else None


@dataclass(frozen=True)
class Cost:
    """One of the costs that a visitor may choose."""

    words: str
    find: Callable[[Session, Shown, bool], Costs | None]
    """Returns it for one of the two graphs, as `costs_of`."""
    help: str = ""
    """The sentences that explain it."""


COSTS: Mapping[Unit, Cost] = {
    "parameter": Cost("parameters", _parameters),
    "FLOP": Cost(
        "FLOPs",
        partial(_work, "FLOP"),
        "FLOPs are counted from the shapes: a multiplication and an addition are two.",
    ),
    "byte": Cost("bytes moved", partial(_work, "byte"), "Bytes moved are what each operation reads and writes."),
    "nanosecond": Cost(
        "time",
        _times,
        "Time is measured on the inputs of the capture, in CPU time of one thread of the server.",
    ),
}
"""All of them, in the order of the choice."""

UNITS: Mapping[str, Unit | None] = {"Cost: none": None, **{f"Cost: {cost.words}": unit for unit, cost in COSTS.items()}}
"""The unit of each choice."""

WORDS: Mapping[Unit, str] = {unit: cost.words for unit, cost in COSTS.items()}

_HELP = " ".join([
    "A bar in each box: its cost, against the box that costs the most.",
    *(cost.help for cost in COSTS.values() if cost.help),
])  # fmt: skip
