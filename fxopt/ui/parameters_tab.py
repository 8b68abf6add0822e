"""Parameters before and after: the totals, and the tensors of each module."""

from __future__ import annotations

from dataclasses import asdict

import pandas as pd
import streamlit as st

from fxopt.evidence import ParameterRow, ParameterTable, Totals, parameter_table
from fxopt.ui.markdown import escaped
from fxopt.ui.session import Session


def parameters_tab(session: Session) -> None:
    table = session.once("parameters", lambda: parameter_table(session.graph_of("Original"), session.graph_of("Now")))
    _totals(table)
    # While the graph is unchanged, the table is left out: it would cost the first view of the page half a second.
    every = st.toggle("Every module, not only those that changed", key="every module")
    rows = table.rows if every else table.changed_rows
    if rows:
        st.dataframe(
            # Of one name each time: the browser keeps data that is the same to the byte.
            _frame(rows).style.set_uuid("parameters").apply(_amber, axis=1).format(thousands=","),
            key="parameter table",
            hide_index=True,
            column_config={
                "module": st.column_config.Column(width="medium"),
                "what changed": st.column_config.Column(width="large"),
            },
            height=min(36 * (len(rows) + 1), 400),
        )
    else:
        st.caption("Every module holds what it held.")
    if table.ties:
        st.caption(f"Counted once: {escaped('; '.join(table.ties))}.")


def _totals(table: ParameterTable) -> None:
    before, after = table.before, table.after
    parts = []
    for label, old, new, unit in zip(
        ("Parameters", "Bytes of parameters", "Elements in buffers", "Bytes in all"),
        (before.parameters, before.parameter_bytes, before.buffers, _bytes(before)),
        (after.parameters, after.parameter_bytes, after.buffers, _bytes(after)),
        ("", " B", "", " B"),
    ):
        difference = f"{new - old:+,}" if new != old else "as before"
        parts.append(f"<div><dt>{label}</dt><dd><strong>{new:,}{unit}</strong></dd><dd>{difference}</dd></div>")
    # instead of st.metric, whose script brings a charting library that the first view of the page would wait for
    st.html(f'<dl class="totals">{"".join(parts)}</dl>')


def _bytes(totals: Totals) -> int:
    return totals.parameter_bytes + totals.buffer_bytes


def _frame(rows: tuple[ParameterRow, ...]) -> pd.DataFrame:
    names = {
        "path": "module",
        "kind": "class",
        "parameters_before": "parameters before",
        "parameters_after": "after",
        "bytes_before": "bytes before",
        "bytes_after": "bytes after",
        "dtype": "dtype",
        "what": "what changed",
    }
    return pd.DataFrame(map(asdict, rows), columns=list(names)).rename(columns=names)


def _amber(row: pd.Series) -> list[str]:
    color = "background-color: #f2a90033" if row["what changed"] else ""
    return [color] * len(row)
