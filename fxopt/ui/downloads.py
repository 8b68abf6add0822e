"""Downloads: pictures of the graph, and tables, as they are when a button is clicked."""

from __future__ import annotations

import html
from collections.abc import Callable

import pandas as pd
import streamlit as st

from fxopt.evidence import LatencyReport, NumericsReport
from fxopt.export import to_csv, to_markdown
from fxopt.ui.latency_tab import WALL
from fxopt.ui.parameters_tab import parameters_of
from fxopt.ui.report import comparison_html
from fxopt.ui.session import Session
from fxopt.view import GraphView, to_dot, to_picture
from fxopt.view.program import EngineError
from fxopt.view.svg import PictureForm

NODE_COLUMNS = ("name", "op", "target", "module", "shape", "dtype")


def downloads(session: Session) -> None:
    """Draw the buttons."""
    name = f"{session.opened.source.key.rpartition('/')[2]}-{session.view.shown.lower()}".replace(":", "-")

    def button(label: str, make: Callable[[], str | bytes], ending: str, kind: str) -> None:
        st.download_button(
            label, make, f"{name}{ending}", kind, key=f"save {ending}", on_click="ignore", width="stretch"
        )

    st.caption("The graph that is shown")
    button("DOT, every module open", lambda: to_dot(_looked_at(session)), ".dot", "text/vnd.graphviz")
    button("SVG, folded as shown", lambda: _picture(session, "svg"), ".svg", "image/svg+xml")
    button("PNG, folded as shown", lambda: _picture(session, "png"), ".png", "image/png")
    button("Nodes as CSV", lambda: to_csv(_nodes(session)), "-nodes.csv", "text/csv")
    button("Nodes as Markdown", lambda: to_markdown(_nodes(session), "Nodes"), "-nodes.md", "text/markdown")
    st.caption("Before and now")
    button("HTML of the comparison", lambda: _comparison(session), "-comparison.html", "text/html")
    button("Parameters as CSV", lambda: to_csv(_parameters(session)), "-parameters.csv", "text/csv")
    button("Parameters as Markdown", lambda: to_markdown(_parameters(session), "Parameters"), "-parameters.md",
           "text/markdown")  # fmt: skip


def _looked_at(session: Session) -> GraphView:
    with session.at_work:
        return session.view_of(session.view.shown)


def _nodes(session: Session) -> pd.DataFrame:
    view = _looked_at(session)
    return pd.DataFrame([[getattr(node, one) for one in NODE_COLUMNS] for node in view.nodes], columns=NODE_COLUMNS)


def _comparison(session: Session) -> str:
    """Return the comparison, with the numerics and latencies of the same two graphs, where they were made."""
    with session.at_work:
        choices, jobs = session.workbench.choices, (session.comparison, session.measurement, session.searches.get(WALL))
        made = [job.job.result for job in jobs if job is not None and job.choices == choices]
        return comparison_html(
            session.workbench,
            f"{session.opened.source.title}, before and now",
            numerics=next((one for one in made if isinstance(one, NumericsReport)), None),
            latencies=[one for one in made if isinstance(one, LatencyReport)],
        )


def _parameters(session: Session) -> pd.DataFrame:
    with session.at_work:
        return parameters_of(session).frame


def _picture(session: Session, form: PictureForm) -> bytes:
    """Return the picture; if no engine can make it, an SVG with the reason."""
    try:
        return to_picture(to_dot(_looked_at(session), session.open_modules), form)
    except EngineError as error:
        told = str(error)
    text = f'<text x="10" y="30">No picture: {html.escape(told)}</text>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="900" height="50">{text}</svg>'.encode()
