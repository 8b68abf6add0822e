"""Where does the cost lie? The chosen cost by module, before and now; a click on a part selects it in the graph."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial

import pandas as pd
import streamlit as st

from fxopt.evidence.blocks import Block, cost_blocks
from fxopt.evidence.costs import Costs
from fxopt.ui.charts import blocks_chart, picked
from fxopt.ui.costs import UNITS, USUAL, WORDS, costs_of, counted_unit
from fxopt.ui.going import go_to
from fxopt.ui.markdown import escaped
from fxopt.ui.panel import acting
from fxopt.ui.session import Session
from fxopt.ui.tab import Tab
from fxopt.ui.viewing import select

LABELS = {WORDS[unit]: label for label, unit in UNITS.items() if unit is not None}


def _draw(session: Session) -> None:
    session.listen("blocks chart", _obey)
    unit = counted_unit() or USUAL
    if st.session_state.get("cost of parts") != WORDS[unit]:
        st.session_state["cost of parts"] = WORDS[unit]
    st.segmented_control(
        "Cost",
        list(LABELS),
        key="cost of parts",
        label_visibility="collapsed",
        required=True,
        on_change=acting(session, partial(_choose, session)),
    )
    shown = session.view.shown
    costs, before = (costs_of(session, one, unit=unit, waiting=True) for one in (shown, "Original"))
    if costs is None or before is None:
        return
    blocks = session.memo.remember(
        "blocks", (session.workbench.choices, shown, costs.unit), lambda: cost_blocks(session.graph_of(shown), costs)
    )
    if not blocks:
        st.caption(escaped(costs.note) or "Nothing in this graph has such a cost.")
        return
    told = _told(costs, before, blocks)
    st.caption(escaped(told))
    blocks_chart(session, blocks, costs.told, f"{WORDS[costs.unit]} by module: {told}")
    numbers = st.expander("The numbers", key="numbers of blocks", on_change="rerun")
    if numbers.open:
        kernels = cost_blocks(session.graph_of(shown), costs.kernels, least=0) if costs.kernels is not None else None
        numbers.dataframe(_frame(costs, blocks, kernels), key="table of blocks", hide_index=True)


def _told(costs: Costs, before: Costs, blocks: tuple[Block, ...]) -> str:
    """Return the whole cost, and the parts with most of it, in words."""
    now, old = costs.of_all(costs.parts), before.of_all(before.parts)
    whole = costs.told(now) if now == old else f"{before.told(old)} before, {costs.told(now)} now"
    parts = sorted((one for one in blocks if one.is_node), key=lambda one: -one.share)[:3]
    most = f" The most: {', '.join(f'{one.name} {one.share:.0%}' for one in parts)}." if parts else ""
    if costs.kernels is not None and now:
        share = costs.kernels.of_all(costs.kernels.parts) / now
        most += f" {share:.0%} of the time is in kernels; the rest is Python, dispatch, views and memory."
    note = f" {costs.note[0].upper() + costs.note[1:]}." if costs.note else ""
    return f"{whole}.{most}{note} Click a part to select it in the graph."


def _frame(costs: Costs, blocks: tuple[Block, ...], kernels: tuple[Block, ...] | None) -> pd.DataFrame:
    """Return a row for each part.

    Args:
        kernels: of times, the part in kernels of each module and node.
    """
    frame = pd.DataFrame(
        [
            (one.name or "the whole model", one.kind, costs.told(one.amount), round(100 * one.share, 2))
            for one in blocks
        ],
        columns=["part", "calls", WORDS[costs.unit], "percent"],
    )
    if kernels is not None:
        inside = {(one.name, one.is_node): one.amount for one in kernels}
        parts = [min(one.amount, inside.get((one.name, one.is_node), 0)) for one in blocks]
        frame["in kernels"] = [costs.told(part) for part in parts]
        frame["Python, dispatch"] = [costs.told(one.amount - part) for one, part in zip(blocks, parts)]
    return frame


def _choose(session: Session) -> None:
    """Show the cost that was chosen here as bars in the graph, too."""
    chosen = st.session_state.get("cost of parts")
    if chosen in LABELS:
        st.session_state["cost"] = LABELS[chosen]


def _obey(session: Session) -> None:
    """Select the module or node that was clicked."""
    name = picked("blocks chart", "pick")
    if name is None:
        return
    view = session.view_of(session.view.shown)
    if name in view.by_name:
        go_to(session, name)
    elif name.startswith("@") and name[1:] in view.module_classes:
        select(session, name)


def _shown(session: Session) -> Hashable:
    return session.workbench.choices, session.view.shown, counted_unit()


COST = Tab("Cost", _draw, _shown)
