"""Parameters before and after: the totals, and the tensors of each module."""

from __future__ import annotations

from dataclasses import asdict

import pandas as pd
import streamlit as st

from fxopt.evidence import ParameterRow, ParameterTable, Totals, parameter_table
from fxopt.ui.markdown import escaped
from fxopt.ui.session import Session
from fxopt.ui.tab import Tab
from fxopt.workbench.parameter_sites import parameters_by_site


def parameters_of(session: Session) -> ParameterTable:
    """Return the parameters of both graphs."""
    graph_of = session.graph_of
    return session.memo.once("parameters", lambda: parameter_table(graph_of("Original"), graph_of("Now")))


def _draw(session: Session) -> None:
    table = parameters_of(session)
    _totals(table)
    # While the graph is unchanged, the table is left out: it would cost the first view of the page half a second.
    every = st.toggle("A line for each module", key="every module")
    if every:
        _table(_by_module(table.rows), "parameter table")
    elif table.changed_rows:
        _table(_by_site(session, table), "parameters by site")
    else:
        st.caption("No module has other parameters than in the original.")
    if table.ties:
        st.caption(f"Counted once: {escaped('; '.join(table.ties))}.")


def _table(frame: pd.DataFrame, key: str) -> None:
    st.dataframe(
        # Of one name each time: the browser keeps data that is the same to the byte.
        frame.style.set_uuid(key).format(thousands=",", precision=3),
        key=key,
        hide_index=True,
        column_config={"what became what": st.column_config.Column(width="large")},
        height=min(36 * (len(frame) + 1), 400),
    )


def _totals(table: ParameterTable) -> None:
    before, after = table.before, table.after
    parts = []
    for label, old, new in (
        ("Parameters", f"{before.parameters:,}", f"{after.parameters:,}"),
        ("MB of parameters", _megabytes(before.parameter_bytes), _megabytes(after.parameter_bytes)),
        ("Elements in buffers", f"{before.buffers:,}", f"{after.buffers:,}"),
        ("MB in all", _megabytes(_bytes(before)), _megabytes(_bytes(after))),
    ):
        difference = f"{old} before" if new != old else "as before"
        parts.append(f"<div><dt>{label}</dt><dd><strong>{new}</strong></dd><dd>{difference}</dd></div>")
    # instead of st.metric, whose script brings a charting library that the first view of the page would wait for
    st.html(f'<dl class="totals">{"".join(parts)}</dl>')


def _megabytes(size: int) -> str:
    """Return bytes in MB.

    >>> _megabytes(437_935_104), _megabytes(112_448)
    ('437.935', '0.112')
    """
    return f"{size / 1e6:,.3f}"


def _bytes(totals: Totals) -> int:
    return totals.parameter_bytes + totals.buffer_bytes


def _by_site(session: Session, table: ParameterTable) -> pd.DataFrame:
    bench = session.workbench
    graphs = session.graph_of("Original"), session.graph_of("Now")
    found = session.memo.once("parameters by site", lambda: parameters_by_site(table, bench.states, *graphs))
    rows = [
        {
            "pass": session.called(one.pass_name) if one.pass_name else "by hand",
            "sites": len(one.sites),
            "in": one.place or "the model",
            "what became what": one.became,
            "parameters before": one.parameters_before,
            "now": one.parameters_after,
            "MB before": one.bytes_before / 1e6,
            "MB now": one.bytes_after / 1e6,
        }
        for one in found
    ]
    return pd.DataFrame(rows)


def _by_module(rows: tuple[ParameterRow, ...]) -> pd.DataFrame:
    names = {
        "path": "module",
        "kind": "class",
        "parameters_before": "parameters before",
        "parameters_after": "now",
        "bytes_before": "MB before",
        "bytes_after": "MB now",
        "dtype": "dtype",
        "what": "what became what",
    }
    frame = pd.DataFrame(map(asdict, rows), columns=list(names)).rename(columns=names)
    return frame.assign(**{name: frame[name] / 1e6 for name in ("MB before", "MB now")})


PARAMETERS = Tab("Parameters", _draw)
