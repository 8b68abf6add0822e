"""The graph on the page: pan, zoom, select, fold, with marks that need no new layout.

Two Streamlit components make it. The first carries a layout (gzipped, sent once for each structure) and the code;
the second carries the layout's id, the marks and the selection, and is what the visitor sees. The viewport stays
in the browser, and nothing is sent from there but what the visitor does.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamlit as st

from fxopt.view import ResolvedMarks

_FOLDER = Path(__file__).parent / "component"
_CODE = ("scene", "theme", "camera", "boxes", "paint", "minimap", "chrome", "input", "pane", "store")


def code() -> str:
    """The whole of the graph's JavaScript as one module: there is no build step, so the files are joined here."""
    return "\n".join((_FOLDER / f"{name}.js").read_text(encoding="utf-8") for name in _CODE)


def styles() -> str:
    return (_FOLDER / "graph.css").read_text(encoding="utf-8")


_store = st.components.v2.component("fxopt_layouts", js=code())
_view = st.components.v2.component("fxopt_graph", js=(_FOLDER / "mount.js").read_text(encoding="utf-8"), css=styles())


def graph_component(
    layout_bytes: bytes,
    layout_id: str,
    *,
    key: str,
    marks: ResolvedMarks | None = None,
    selected: str | None = None,
    dim: bool = False,
    height: int = 640,
    title: str = "Graph",
    subject: str = "",
    link: str | None = None,
    on_select: Callable[[str | None], None] | None = None,
    on_toggle: Callable[[str], None] | None = None,
) -> None:
    """Show the layout that `fxopt.view.pack` packed, whose `Layout.id` is `layout_id`.

    `selected` is the name of a node, which is seen on its folded module where it is folded, or ``@path`` for such a
    module itself; None for nothing. With `dim`, what has no mark steps back. `subject` names the model: another one
    starts at its beginning, while a new layout of the same one keeps the visitor's place. Panes with one `link` share
    their selection. `on_select` and `on_toggle` are called, as Streamlit's callbacks are, before the next run of the
    script: with what the visitor has selected (None for nothing), and with the path of the module to fold or unfold.
    """

    def selected_changed() -> None:
        event = _state(key).get("selected")
        if on_select is not None and event:
            on_select(event["name"])

    def toggle_changed() -> None:
        path = _state(key).get("toggle")
        if on_toggle is not None and path:
            on_toggle(path)

    data = {
        "key": key,
        "layout": layout_id,
        "marks": marks.payload() if marks else {},
        "selected": selected,
        "dim": dim,
        "height": height,
        "title": title,
        "subject": subject,
        "link": link,
    }
    # Without a gap of its own, the component that shows nothing would still move the other down.
    with st.container(gap=None):
        _store(key=f"{key}-layout", data=layout_bytes)
        _view(key=key, data=data, on_selected_change=selected_changed, on_toggle_change=toggle_changed)


def _state(key: str) -> dict[str, Any]:
    return dict(st.session_state.get(key) or {})
