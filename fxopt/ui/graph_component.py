"""The graph on the page: pan, zoom, select, fold, with marks that keep the layout.

Three Streamlit components make it. The first carries the code, once for the page; the second a layout, gzipped, once
for each structure; the third the layout's id, the marks and the selection, and is the visible one. The viewport stays
in the browser, which sends only acts of the visitor. An act that leads back to a picture that was shown before is
painted at once, and again with Python's answer (`foreseen.py`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import streamlit as st

from fxopt.ui import events
from fxopt.ui.events import news, sent_by
from fxopt.ui.markdown import code as in_code
from fxopt.ui.modules import joined
from fxopt.ui.presence import presence
from fxopt.view import ResolvedMarks
from fxopt.view.steps import Step

_code = st.components.v2.component("fxopt_code", js=joined("page"))
_layout = st.components.v2.component("fxopt_layout", js=joined("layouts"))
_view = st.components.v2.component("fxopt_graph", js=joined("mount"))


View = Literal["before", "after", "both"]
Bars: TypeAlias = Mapping[int, tuple[float, str]]
"""Costs by box: a share of the largest, and in words."""
Way: TypeAlias = tuple[Sequence[int], str]
"""The boxes along a way through the graph, and its line in the legend."""


@dataclass
class Heard(events.Heard):
    """The acts in a graph that were obeyed."""

    turns: int = 0
    """The number of times that the graph was told something: by it the browser tells news from repetition."""


def _heard(key: str) -> Heard:
    heard: Heard = st.session_state.setdefault(f"heard of {key}", Heard())
    return heard


def heard_of(key: str) -> int:
    """Return the number of the last act in the graph `key` that was obeyed; the graph waits for it."""
    return _heard(key).number


def obey_graph(
    key: str,
    session: str,
    on_select: Callable[[str], None],
    on_toggle: Callable[[str], None],
    knows: Callable[[str], bool],
    on_reveal: Callable[[str], None] | None = None,
    on_edit: Callable[[str, str], None] | None = None,
    on_edge: Callable[[str, Sequence[str]], None] | None = None,
) -> str:
    """Apply the acts in the graph `key` since the last run. To be called before anything that they change is drawn.

    `session` is the identity of the session: acts at the graph of another one are left. `on_select` is called with the
    name that was selected (empty for nothing), `on_toggle` with the path of the module to fold or unfold, `on_reveal`
    (or else `on_select`) with the name of a node that a folded module hides, `on_edit` with an entry of the menu of a
    node and the name of the node, `on_edge` with an act on an edge and the names of its source, its target, and the
    node that one of its ends was dragged to, if one was. A name of which `knows` is false is ignored. This is a plain
    call instead of a callback: when clicks come quickly, Streamlit ends a run as soon as it looks at its state.

    Returns:
        the complaint about refused acts; empty if all were obeyed.
    """
    heard, is_here = _heard(key), presence(grace=0)
    acts = {"fold": on_toggle, "select": on_select, "reveal": on_reveal or on_select}
    told = news(sent_by(key, "events"), heard.number, session)
    unknown = ""
    for number, kind, name in told.acts:
        if not is_here():
            return ""
        heard.number = number
        is_edit = kind.startswith("edit ") and on_edit is not None and name != ""
        is_edge = kind.startswith("edge ") and on_edge is not None and name != ""
        named = name.split(" ") if is_edge else [f"@{name}" if kind == "fold" else name]
        if not (is_edit or is_edge or kind in acts) or not all(map(knows, named)):
            unknown = f"There is no {in_code(ascii(name))} in either graph; the act was ignored."
        elif is_edit and on_edit is not None:
            on_edit(kind.removeprefix("edit "), name)
        elif is_edge and on_edge is not None:
            on_edge(kind.removeprefix("edge "), named)
        else:
            acts[kind](name)
    return heard.end(told) or unknown


def graph_code() -> None:
    """Bring the code of the graphs, once for the page, as an invisible component.

    Drawn first, it lets the browser fetch the code for graphs while the page is still being made.
    """
    with st.container(key="graph code"):
        _code(key="code of graphs")


def graph_component(
    layout_bytes: bytes | None,
    layout_id: str,
    *,
    key: str,
    session: str = "",
    marks: ResolvedMarks | None = None,
    selected: str | None = None,
    gone_to: tuple[str, str, str, bool] = ("0", "", "", True),
    note: str = "",
    legend: Sequence[tuple[str, int, str]] = (),
    became: Sequence[tuple[int, int]] = (),
    steps: Sequence[Step] = (),
    dim: bool = False,
    height: int | str = 640,
    title: str = "Graph",
    subject: str = "",
    side: View = "after",
    related: Sequence[Sequence[int]] = (),
    bars: Bars | None = None,
    path: Way | None = None,
    link: str | None = None,
    foldable: bool = True,
    foreseen: Mapping[str, str] | None = None,
    on_events: Callable[[], None] = lambda: None,
) -> str:
    """Show the layout that `fxopt.view.pack` packed, whose `Layout.id` is `layout_id`. The page has `graph_code`.

    Without `layout_bytes`, another pane on the page brings that layout. Of a layout of two graphs, `side` says which is
    shown, or both in one picture. `related` are boxes that belong together, by number: boxes of one graph and their
    counterparts in the other; pointing at one lights the rest. `path` is the critical one.

    `selected` is the name of a node, which is seen on its folded module while that is folded, or ``@path`` for such a
    module itself; None for an empty selection. `gone_to` is a move of the graph: a key, which makes it once; the node
    to go to; a few words for the visitor; and whether the layout is the one that is to show it. `note` stands beside
    the caption. `legend` has kinds of marks, each with the number of its pass and its words; without it, the marks in
    the picture are counted. `became` are pairs of boxes, of a node that is gone and one that does its work.
    `steps` are the sites of a rewrite, to be played. With `dim`, unmarked boxes step back. `height` is in pixels, or a
    length of CSS. `subject` names the model: another one starts at its beginning, while a new layout of the same one
    keeps the visitor's place. Panes with one `link` share their selection, and, if they show one layout, the viewport.
    Without `foldable`, modules stay as they are. `foreseen` are pictures that were shown before, by the acts that lead
    back to them: each by the class of its widget, or the name of a key. They are painted before Python has answered.
    The visitor's acts are for `obey_graph`; `on_events` is called before that, as the callback of a widget.

    Returns:
        the digest of the picture, by which `foreseen` names it later.
    """
    data: dict[str, Any] = {
        "key": key,
        "layout": layout_id,
        "marks": marks.payload() if marks else {},
        "selected": selected,
        "goneTo": [*gone_to],
        "note": note,
        "legend": [list(entry) for entry in legend],
        "became": [list(pair) for pair in became],
        "steps": [[step.told, [*step.boxes]] for step in steps],
        "dim": dim,
        "height": height if isinstance(height, str) else f"{height}px",
        "title": title,
        "subject": subject,
        "link": link,
        "side": side,
        "related": [list(numbers) for numbers in related],
        "bars": {str(index): [*bar] for index, bar in (bars or {}).items()},
        "path": {"boxes": [*path[0]], "told": path[1]} if path else None,
        "foldable": foldable,
    }
    picture = hashlib.blake2b(json.dumps(data).encode(), digest_size=8).hexdigest()
    heard = _heard(key)
    heard.turns += 1
    data |= {"picture": picture, "foreseen": foreseen or {}, "turn": heard.turns}
    data |= {"session": session, "heard": heard.number}
    # With the usual gap, an invisible component would still move the rest down.
    with st.container(gap=None):
        if layout_bytes is not None:
            _layout(key=f"{key}-layout", data=layout_bytes)
        _view(key=key, data=data, on_events_change=on_events)
    return picture
