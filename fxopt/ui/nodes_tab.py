"""The graph as a table: every node, with the selection of the picture, for screen readers too."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pandas as pd
import streamlit as st

from fxopt.ui.costs import WORDS, chosen_costs, costs_of, path_of
from fxopt.ui.events import sent_by
from fxopt.ui.going import go_to
from fxopt.ui.markdown import counted, escaped
from fxopt.ui.panel import redraw
from fxopt.ui.search import MOST_TEXT, found
from fxopt.ui.session import Session
from fxopt.ui.tab import Tab
from fxopt.ui.viewing import select
from fxopt.view import GraphView, NodeView

COLUMNS = ("name", "op", "target", "module", "shape", "dtype")


@dataclass
class Table:
    """The table as it was last drawn: its key, its nodes, and the chosen rows that were applied."""

    key: str
    names: Sequence[str]
    rows: list[int]


def _obey(session: Session) -> None:
    """Select the node whose row the visitor has chosen since the last run."""
    table: Table | None = st.session_state.get("nodes table")
    if table is None:
        return
    rows = _rows(table)
    if rows != table.rows:
        table.rows = rows
        if rows:
            go_to(session, table.names[rows[0]])
        else:
            select(session, "")


def _rows(table: Table) -> list[int]:
    """Return the chosen rows: at most one, which is there."""
    selection = sent_by(table.key, "selection")
    rows = selection.get("rows") if isinstance(selection, Mapping) else None
    if not isinstance(rows, list):
        return table.rows
    return [row for row in rows[:1] if type(row) is int and 0 <= row < len(table.names)]


def _draw(session: Session) -> None:
    session.listen("nodes", _obey)
    view = session.view_of(session.view.shown)
    asked = st.text_input(
        "Find nodes by name, target, module path or shape; a regular expression if you like",
        key="asked nodes",
        placeholder="linear|matmul, encoder.layer.3, 8×64 …",
        max_chars=MOST_TEXT,
    ).strip()
    nodes, fault = found(asked, view.nodes, _texts)
    told = f"{counted(len(nodes), 'node')} of {len(view.nodes):,} in {_where(session)}"
    st.caption(f"{told}. {escaped(fault)}" if fault else f"{told}. Choose a row to select the node in the graph too.")
    if not nodes:
        st.info("No node fits. Shorten what you look for.", icon=":material/search_off:")
        return
    _table(session, view, nodes)


def _where(session: Session) -> str:
    return "the original graph" if session.view.shown == "Original" else "the graph as it is now"


def _texts(node: NodeView) -> tuple[str, ...]:
    return node.name, node.op, node.target, node.called, node.module, node.shape, node.dtype


def _table(session: Session, view: GraphView, nodes: list[NodeView]) -> None:
    names = [node.name for node in nodes]
    # A table takes its selection at its first drawing only: another one from elsewhere needs another table.
    frame = _frame(session, nodes)
    key = f"nodes {view.digest} {st.session_state['asked nodes']} {session.view.selected} {list(frame)[len(COLUMNS) :]}"
    chosen = [names.index(session.view.selected)] if session.view.selected in names else []
    st.session_state["nodes table"] = Table(key, names, chosen)
    st.dataframe(
        frame,
        key=key,
        hide_index=True,
        height=420,
        on_select=partial(redraw, session),
        selection_mode="single-row",
        selection_default={"selection": {"rows": chosen}},
        column_config={word: st.column_config.NumberColumn(format="localized") for word in WORDS.values()},
        alt=f"Nodes of {session.opened.source.title}",
    )


def _frame(session: Session, nodes: list[NodeView]) -> pd.DataFrame:
    """Return the columns of the table; with cost and critical path where the visitor asked for them."""
    frame = pd.DataFrame([[getattr(node, column) for column in COLUMNS] for node in nodes], columns=list(COLUMNS))
    costs, path = costs_of(session, session.view.shown), path_of(session, session.view.shown)
    if costs is not None:
        frame[WORDS[costs.unit]] = [costs.of(node.name) for node in nodes]
    if path is not None:
        on_it = frozenset(path.nodes)
        frame["critical path"] = ["on it" if node.name in on_it else "" for node in nodes]
    return frame


def _shown(session: Session) -> Hashable:
    return session.workbench.choices, session.view.selected, session.view.shown, chosen_costs()


NODES = Tab("Nodes", _draw, _shown)
