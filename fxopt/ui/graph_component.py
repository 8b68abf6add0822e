"""The graph on the page: pan, zoom, select, fold, with marks that need no new layout.

Three Streamlit components make it. The first carries the code, once; the second a layout, gzipped, once for each
structure; the third the layout's id, the marks and the selection, and is what the visitor sees. The viewport stays in
the browser, and nothing is sent from there but what the visitor does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import streamlit as st

from fxopt.view import ResolvedMarks

_FOLDER = Path(__file__).parent / "component"
_CODE = (
    "scene", "sides", "theme", "camera", "boxes", "paint", "minimap", "chrome", "input", "links", "pane", "unpack",
    "store", "ghosts",
)  # fmt: skip


def code() -> str:
    """The whole of the graph's JavaScript as one module: there is no build step, so the files are joined here.

    It brings the styles as well, because what comes with a component comes again with each change of its data.
    """
    files = ((_FOLDER / f"{name}.js").read_text(encoding="utf-8") for name in _CODE)
    return "\n".join([f"const STYLES = {json.dumps(styles())};", *files])


def styles() -> str:
    return (_FOLDER / "graph.css").read_text(encoding="utf-8")


def _entry(name: str) -> str:
    return (_FOLDER / f"{name}.js").read_text(encoding="utf-8")


_code = st.components.v2.component("fxopt_code", js=code())
_layout = st.components.v2.component("fxopt_layout", js=_entry("layouts"))
_view = st.components.v2.component("fxopt_graph", js=_entry("mount"))


View = Literal["before", "after", "both"]


def graph_component(
    layout_bytes: bytes | None,
    layout_id: str,
    *,
    key: str,
    marks: ResolvedMarks | None = None,
    selected: str | None = None,
    dim: bool = False,
    height: int = 640,
    title: str = "Graph",
    subject: str = "",
    side: View = "after",
    related: Sequence[Sequence[int]] = (),
    bars: Mapping[int, tuple[float, str]] | None = None,
    link: str | None = None,
    foldable: bool = True,
    on_select: Callable[[str | None], None] | None = None,
    on_toggle: Callable[[str], None] | None = None,
) -> None:
    """Show the layout that `fxopt.view.pack` packed, whose `Layout.id` is `layout_id`.

    Without `layout_bytes`, another pane on the page brings that layout. Of a layout of two graphs, `side` says which is
    shown, or both in one picture. `related` are boxes that belong together, by number: those of one graph and what
    stands for them in the other; pointing at one lights the rest. `bars` are costs by box: a share of 1, and in words.

    `selected` is the name of a node, which is seen on its folded module where it is folded, or ``@path`` for such a
    module itself; None for nothing. With `dim`, what has no mark steps back. `subject` names the model: another one
    starts at its beginning, while a new layout of the same one keeps the visitor's place. Panes with one `link` share
    their selection, and the place they look at where they show one layout. Without `foldable`, modules stay as they
    are.

    `on_select` and `on_toggle` are called, as Streamlit's callbacks are, before the next run of the script: with what
    the visitor has selected (None for nothing), and with the path of the module to fold or unfold.
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
        "side": side,
        "related": [list(numbers) for numbers in related],
        "bars": {str(index): [*bar] for index, bar in (bars or {}).items()},
        "foldable": foldable,
    }
    # Without a gap of its own, what shows nothing would still move the rest down.
    with st.container(gap=None):
        if layout_bytes is not None:
            _code(key=f"{key}-code")
            _layout(key=f"{key}-layout", data=layout_bytes)
        _view(key=key, data=data, on_selected_change=selected_changed, on_toggle_change=toggle_changed)


def _state(key: str) -> dict[str, Any]:
    return dict(st.session_state.get(key) or {})
