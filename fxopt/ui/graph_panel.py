"""The graph in the middle of the page: which one, how it is folded, what is marked, and its files."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

import streamlit as st

from fxopt.ui.graph_component import graph_component
from fxopt.ui.markdown import escaped
from fxopt.ui.marks import marks_of
from fxopt.ui.session import Session
from fxopt.view import GraphView, VisibleGraph, default_unfolded, layout, pack, resolve, to_dot, visible
from fxopt.view.engine import engines

HEIGHT = 600
LAYOUTS = 64
"""How many layouts are kept in memory, for all visitors together; one takes a few kilobytes."""


@dataclass(frozen=True)
class PackedLayout:
    """A layout as it goes to the browser; plain data, so that it can be cached for everyone."""

    id: str
    data: bytes


@st.cache_resource(max_entries=LAYOUTS, show_spinner=False)
def packed(digest: str, _graph: VisibleGraph) -> PackedLayout:
    picture = layout(_graph)
    return PackedLayout(picture.id, pack(picture))


def graph_panel(session: Session) -> None:
    """Draw the bar above the graph, and the graph."""
    view = session.view_of(session.shown)
    shown = session.remember("visible", (view.digest, session.unfolded), lambda: visible(view, session.unfolded))
    _bar(session, view)
    picture = packed(shown.digest, shown)
    states = session.workbench.states
    marks = marks_of(states, session.looked_at, original=session.shown == "Original")
    graph_component(
        picture.data,
        picture.id,
        key="graph",
        marks=resolve(marks, shown, [state.name for state in states]),
        selected=session.selected or None,
        height=HEIGHT,
        title=f"Graph of {session.opened.source.title}, {session.shown.lower()}",
        subject=session.opened.source.key,
        on_select=lambda name: session.select(name or ""),
        on_toggle=session.fold,
    )
    _facts(session)


def _bar(session: Session, view: GraphView) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="graph bar"):
        if st.session_state.get("shown") != session.shown:
            st.session_state["shown"] = session.shown
        st.segmented_control(
            "Which graph",
            ["Original", "Now"],
            key="shown",
            label_visibility="collapsed",
            required=True,
            on_change=_show,
            args=(session,),
        )
        st.space("stretch")
        for label, unfolded, told in (
            ("Fold", frozenset[str](), "Fold every module into one box"),
            ("Blocks", default_unfolded(view), "Open as many modules as fit a first look"),
            ("Unfold", frozenset(view.module_classes), "Open every module"),
        ):
            st.button(
                label,
                key=f"fold: {label}",
                help=told,
                disabled=unfolded == session.unfolded,
                on_click=_unfold,
                args=(session, unfolded),
            )
        with st.popover("Save", key="save", help="The graph as a file"):
            _downloads(session, view)


def _show(session: Session) -> None:
    session.shown = st.session_state["shown"]


def _unfold(session: Session, unfolded: frozenset[str]) -> None:
    session.unfolded = unfolded


def _downloads(session: Session, view: GraphView) -> None:
    name = f"{session.opened.source.key.rpartition('/')[2]}-{session.shown.lower()}"
    unfolded = session.unfolded
    st.download_button(
        "DOT, every module open", lambda: to_dot(view), f"{name}.dot", "text/vnd.graphviz", key="save dot",
        on_click="ignore",
    )  # fmt: skip
    st.download_button(
        "SVG, folded as shown", lambda: _svg(to_dot(view, unfolded)), f"{name}.svg", "image/svg+xml", key="save svg",
        on_click="ignore",
    )  # fmt: skip


def _svg(dot: str) -> bytes:
    for _, program in engines():
        return subprocess.run(
            [program, "-Tsvg"], input=dot.encode(), capture_output=True, timeout=60, check=True
        ).stdout
    return b""


def _facts(session: Session) -> None:
    """How the graph came to be, in a line."""
    opened = session.opened
    report = opened.report
    rungs = {
        "plain": "traced by torch.fx",
        "symbolic": "captured with free sizes",
        "fixed": "captured at fixed sizes",
        "real": "captured with values of the example in it",
        "given": "given as a graph",
    }
    free = f", free: {', '.join(report.free)}" if report.free else ""
    replayed = ", replayed against the model" if report.verified else ", not replayed"
    st.caption(
        f"{escaped(opened.source.title)} at {opened.sizes} · {rungs.get(report.rung, report.rung)} "
        f"in {report.seconds:.1f} s{escaped(free)}{replayed}"
    )
