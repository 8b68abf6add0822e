"""The graph in the middle of the page: which one is shown, its folding, its marks, and its files."""

from __future__ import annotations

import html
import time
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import get_args

import streamlit as st

from fxopt.ui.costs import chosen_costs, cost_controls, costs_of, drawn_costs
from fxopt.ui.fault import complain
from fxopt.ui.foreseen import End
from fxopt.ui.going import go_to, move_of, note_on
from fxopt.ui.graph_component import Bars, View, Way, graph_component, heard_of, obey_graph
from fxopt.ui.markdown import escaped
from fxopt.ui.marks import legend_of, marks_of
from fxopt.ui.panel import acting, panel, redraw
from fxopt.ui.pictures import PackedLayout, laying_out
from fxopt.ui.session import Session, Shown, Together
from fxopt.ui.summary_line import summary_line
from fxopt.ui.switches import widget_of
from fxopt.ui.turns import FIRST_DRAWINGS
from fxopt.ui.waiting import result_soon
from fxopt.view import GraphView, Mark, VisibleGraph, families, to_dot, to_svg, visible
from fxopt.view.comparison import GONE
from fxopt.view.marks import resolve_sides
from fxopt.view.program import EngineError
from fxopt.workbench import SiteState

HEIGHT = "var(--graph-height)"
"""As page.css says it, for the elements beside the graph as well."""

VIEWS = (*get_args(Shown), *get_args(Together))
SIDES: Mapping[str, View] = {"Original": "before", "Now": "after", "Diff": "both"}


HEAD_START_SECONDS = 0.35
"""The time for which a new visitor's graph is sent alone. Streamlit's page fetches the code of a kind of element when
the first one comes, and React shows the awaited parts at the earliest 0.3 s after it last began to wait for something.
With all at once, the graph would be seen as late as the rest, and the rest no sooner (measured: `bench_page`)."""


def graph_panels(session: Session) -> None:
    """Draw the graph, the bar above it, and the facts below it."""
    above, graphs, below = st.container(), st.container(), st.container()
    with graphs:  # first, as the centre of the page
        panel(session, "graph panel", _graphs, _shown_by_graphs)
    if "has been drawn" not in st.session_state and session.picture is not None:
        st.session_state["has been drawn"] = True
        with FIRST_DRAWINGS.aside():
            time.sleep(HEAD_START_SECONDS)
    with above:
        panel(session, "bar panel", _bar, _shown_by_bar)
        summary_line(session)
    with below:
        panel(session, "facts panel", _facts, _shown_by_facts)


def _obey(session: Session) -> None:
    """Apply the visitor's acts in the graphs since the last run."""
    shown = session.together or session.shown
    for key, of in (("graph", "Now" if shown == "Side by side" else shown), ("graph before", "Original")):
        select, reveal = partial(_select, session, shown=of), partial(_reveal, session, shown=of)
        obeyed = obey_graph(key, select, session.fold, partial(_knows, session), reveal)
        complain(obeyed)


def _knows(session: Session, name: str) -> bool:
    """Return whether one of the graphs has the node `name`, or the module where it is ``@path``; '' is an empty
    selection.
    """
    if name.startswith("@"):
        return name.partition("#")[0][1:] in _every(session)
    name = name.removesuffix(GONE)
    return not name or any(name in session.view_of(shown).by_name for shown in get_args(Shown))


def _shown_by_graphs(session: Session) -> Hashable:
    look = _look(session, (session.workbench.choices, session.looked_at))
    return look, session.acted, heard_of("graph"), heard_of("graph before")


def _look(session: Session, end: End) -> tuple[Hashable, ...]:
    """Return all that decides the look of the graphs once acts of the visitor have led to `end`."""
    known = tuple(pass_.signature for pass_ in session.workbench.known)
    return (
        *end, session.unfolded, session.revealed, session.closed_at(end[0]), session.gone_to, session.selected,
        session.shown, session.together, chosen_costs(), known,
    )  # fmt: skip


def _graphs(session: Session) -> None:
    """Draw one of the two graphs, both side by side, or both in one picture."""
    session.listen("graphs", _obey)
    together = session.together == "Side by side"
    panes = get_args(Shown) if together else (session.together or session.shown,)
    # The line about waiting has a place of its own: the graph would be built anew if something came before it.
    with st.container(gap=None):
        waiting, graphs = st.container(gap=None, key="graph waiting"), st.container()
    with waiting:
        # Streamlit keeps a line that was drawn earlier in the same run. Its place is sent as empty.
        place, *places = [st.empty() for _ in range(1 + len(get_args(Shown)))]
    with place:
        picture = _picture(session)
    if picture is None:
        return
    counted = []
    for place, of in zip(places, get_args(Shown)):  # both, for the line above
        with place:
            counted.append(costs_of(session, of, waiting=True))
    costs = {shown: drawn_costs(session, _graph_behind(shown), _boxes(picture, shown)) for shown in panes}
    assert session.laying_out is not None
    is_whole = session.laying_out[1].result is picture and (chosen_costs()[0] is None or None not in counted)
    with graphs:
        for place, shown in zip(st.columns(2, gap="small") if together else (graphs,), panes):
            with place:
                _pane(session, picture, shown, *costs[shown], is_whole=is_whole)


def _visible(session: Session, shown: Shown) -> VisibleGraph:
    if shown == "Now" and not session.workbench.is_changed:
        shown = "Original"
    view, opened = session.view_of(shown), session.opened
    unfolded = session.open_modules
    if view is opened.view and unfolded == opened.blocks:
        return opened.first_picture
    return opened.once.answer(("visible", view.digest, unfolded), lambda: visible(view, unfolded))


def _picture(session: Session) -> PackedLayout | None:
    """Return the picture of both graphs; while it is being made, the last one, if any. A newer one ends an older."""
    before, after = _visible(session, "Original"), _visible(session, "Now")
    wanted = (before.digest, after.digest)
    if session.laying_out is None or session.laying_out[0] != wanted:
        if session.laying_out is not None:
            session.laying_out[1].cancel()
        session.laying_out = wanted, laying_out(before, after)
    try:
        made = result_soon(session.laying_out[1], f"Laying out {len(before.items):,} boxes")
    except Exception:
        session.laying_out = None  # whoever tries again begins anew
        raise
    session.picture = made or session.picture
    return session.picture


def _boxes(picture: PackedLayout, shown: str) -> VisibleGraph:
    """Return the boxes of the picture, where a name leads to the box that it has in the graph that is shown."""
    return picture.before if shown == "Original" else picture.graph


def _graph_behind(shown: str) -> Shown:
    """Return the graph whose costs a picture tells."""
    return "Original" if shown == "Original" else "Now"


def _pane(session: Session, picture: PackedLayout, shown: str, bars: Bars, path: Way | None, *, is_whole: bool) -> None:
    """Draw one graph. If it is incomplete, a part of it is still being made."""
    linked = session.together == "Side by side"
    states = session.colored_states
    # The picture that is always there brings the layout, so that a change to another picture sends no layout.
    is_first = not linked or shown == "Now"
    key = "graph" if is_first else "graph before"
    entered = widget_of(*session.entered[:2]) if session.entered is not None else ""
    ends = session.foreseen.ends(session.workbench, session.looked_at, entered)
    looks = {act: (key, *_look(session, end)) for act, end in ends.items()}
    painted = graph_component(
        picture.data if is_first else None,
        picture.id,
        key=key,
        marks=resolve_sides(_marks(session, picture, shown), [state.name for state in states]),
        legend=legend_of(states, session.looked_at),
        became=_became(session, picture) if shown == "Diff" else (),
        selected=_selected(session, picture, shown),
        gone_to=(*move_of(session), is_whole),
        note=note_on(session),
        height=HEIGHT,
        title=f"Graph of {session.opened.source.title}, {shown.lower()}",
        subject=session.opened.source.key,
        side=SIDES[shown],
        related=families(
            [_touched(site) for state in states for site in state.sites if site.on],
            picture.graph,
        ),
        bars=bars,
        path=path,
        link="graph" if linked else None,
        foreseen=session.foreseen.pictures(looks),
        on_events=partial(redraw, session),
    )
    if is_whole:
        session.foreseen.painted((key, *_look(session, (session.workbench.choices, session.looked_at))), painted)


def _touched(site: SiteState) -> tuple[str, ...]:
    return (*site.changed, *site.created, *site.removed, *(name + GONE for name in site.changed))


def _marks(
    session: Session, picture: PackedLayout, shown: str
) -> list[tuple[Mapping[str, Sequence[Mark]], VisibleGraph]]:
    """Return the marks of the original graph, of the current one, or of both, each with the boxes to find them in."""
    found = []
    for original, boxes in ((True, picture.before), (False, picture.graph)):
        if (shown == "Now" and original) or (shown == "Original" and not original):
            continue
        marks = marks_of(session.colored_states, session.looked_at, original=original)
        if shown == "Diff":  # where the old node has a box beside the new one, the two tell of the change
            marks = {
                name: [mark for mark in of if mark.kind != "changed" or picture.graph.find(name + GONE) is None]
                for name, of in marks.items()
            }
        found.append((marks, boxes))
    return found


def _became(session: Session, picture: PackedLayout) -> tuple[tuple[int, int], ...]:
    """Return the boxes of nodes that are gone, each with that of a node which it became."""
    boxes = ((picture.before.find(old), picture.graph.find(new)) for old, new in session.descent)
    return tuple(dict.fromkeys((old, new) for old, new in boxes if old is not None and new is not None and old != new))


def _selected(session: Session, picture: PackedLayout, shown: str) -> str | None:
    """Return the name of the box that is selected; in Diff, of two boxes that of the graph it was pointed at in."""
    name = session.selected
    is_old = shown == "Diff" and session.shown == "Original" and picture.graph.find(name + GONE) is not None
    return (name + GONE if is_old else name) or None


def _select(session: Session, name: str, shown: str) -> None:
    """Select a node, and tell the inspector which of the two graphs it was pointed at in."""
    session.select(name.removesuffix(GONE))
    if name.endswith(GONE):
        session.shown = "Original"
    elif shown != "Diff":
        session.shown = "Original" if shown == "Original" else "Now"
    elif name and not name.startswith("@"):
        session.shown = "Now" if name in session.view_of("Now").by_name else "Original"


def _reveal(session: Session, name: str, shown: str) -> None:
    """Go to a node that a folded module hides."""
    _select(session, name, shown)
    go_to(session, name)


def _every(session: Session) -> frozenset[str]:
    """Return every module that can be opened."""
    return frozenset(session.view_of("Original").module_classes) | frozenset(session.view_of("Now").module_classes)


def _shown_by_bar(session: Session) -> Hashable:
    return session.shown, session.together, session.open_modules, _every(session)


def _bar(session: Session) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="graph bar"):
        chosen = session.together or session.shown
        if st.session_state.get("shown") != chosen:
            st.session_state["shown"] = chosen
        st.segmented_control(
            "Which graph",
            VIEWS,
            key="shown",
            label_visibility="collapsed",
            required=True,
            on_change=acting(session, partial(_show, session)),
        )
        with st.container(horizontal=True, width="content", gap="small"):
            _folding(session)


def _folding(session: Session) -> None:
    for label, unfolded, told in (
        ("Fold", frozenset[str](), "Fold every module into one box"),
        ("Blocks", session.opened.blocks, "Open as many modules as fit a first look"),
        ("Unfold", _every(session), "Open every module"),
    ):
        st.button(
            label,
            key=f"fold: {label}",
            help=told,
            disabled=unfolded == session.open_modules,
            on_click=acting(session, partial(session.unfold, unfolded)),
        )
    files = st.popover("Save", key="save", help="The graph as a file", on_change="rerun")
    if files.open:
        with files:
            _downloads(session)


def _show(session: Session) -> None:
    chosen = st.session_state["shown"]
    if chosen in get_args(Together):
        session.together = chosen
    elif chosen in get_args(Shown):  # after a run in which it was absent, Streamlit has None there
        session.shown, session.together = chosen, None


def _downloads(session: Session) -> None:
    """Draw the buttons that save the graph as it is when they are clicked."""
    name = f"{session.opened.source.key.rpartition('/')[2]}-{session.shown.lower()}"
    st.download_button(
        "DOT, every module open",
        lambda: to_dot(_looked_at(session)),
        f"{name}.dot",
        "text/vnd.graphviz",
        key="save dot",
        on_click="ignore",
    )
    st.download_button(
        "SVG, folded as shown",
        lambda: _svg(to_dot(_looked_at(session), session.open_modules)),
        f"{name}.svg",
        "image/svg+xml",
        key="save svg",
        on_click="ignore",
    )


def _looked_at(session: Session) -> GraphView:
    with session.at_work:
        return session.view_of(session.shown)


def _svg(dot: str) -> bytes:
    """Return the SVG; if no engine can make it, an SVG with the reason."""
    try:
        return to_svg(dot)
    except EngineError as error:
        told = str(error)
    text = f'<text x="10" y="30">No picture: {html.escape(told)}</text>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="900" height="50">{text}</svg>'.encode()


def _shown_by_facts(session: Session) -> Hashable:
    return session.shown, chosen_costs(), session.workbench.choices if any(chosen_costs()) else None


def _facts(session: Session) -> None:
    """Draw a line with the way in which the graph was captured, and the cost on its boxes."""
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
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="graph facts"):
        cost_controls(session)
        costs = costs_of(session, session.shown)
        note = f"  \n{escaped(costs.note[0].upper() + costs.note[1:])}." if costs is not None and costs.note else ""
        st.caption(
            f"{escaped(opened.source.title)} at {opened.sizes} · {rungs.get(report.rung, report.rung)} "
            f"in {report.seconds:.1f} s{escaped(free)}{replayed}{note}"
        )
