"""A page with one graph, for the tests of graphs: `streamlit run graph_script.py`, opened at `?graph=NAME`."""

from __future__ import annotations

import streamlit as st

from fxopt.ui.graph_component import graph_code, graph_component, obey_graph
from fxopt.view import GraphView, Layout, Mark, default_unfolded, layout, pack, resolve, visible
from tests.view import graphs

st.set_page_config(layout="wide")
graph_code()


@st.cache_data
def view_of(name: str) -> GraphView:
    makers = {
        "tower": lambda: GraphView.of(graphs.tower()),
        "encoder": lambda: graphs.encoder(12),
        "large": lambda: graphs.flat(3500),
        "strange": graphs.strange,
    }
    return makers[name]()


@st.cache_data
def layout_of(name: str, unfolded: frozenset[str]) -> tuple[Layout, bytes]:
    picture = layout(visible(view_of(name), unfolded))
    return picture, pack(picture)


PASSES = ["MergeLinears", "ChangeTrueDivToMulByInverse", "FuseBiasInLinear"]


def marks_of(view: GraphView) -> dict[str, list[Mark]]:
    marks: dict[str, list[Mark]] = {}
    for number, node in enumerate(node for node in view.nodes if node.kind == "linear"):
        if any(part in node.name for part in ("query", "key", "value")):
            marks.setdefault(node.name, []).append(Mark("applied" if "layer_0" in node.name else "matched", 0))
        if number % 2:
            marks.setdefault(node.name, []).append(Mark("matched", 2))
    divisions = [node.name for node in view.nodes if "truediv" in node.target]
    for number, name in enumerate(divisions):
        marks.setdefault(name, []).append(Mark("miss" if number % 3 == 2 else "matched", 1))
    norms = [node.name for node in view.nodes if node.kind == "norm"]
    for kind, name in zip(("created", "changed", "removed"), norms):
        marks.setdefault(name, []).append(Mark(kind, 0))  # type: ignore[arg-type]
    return marks


name = st.query_params.get("graph", "tower")
view = view_of(name)
state = st.session_state
state.setdefault("unfolded", frozenset(view.module_classes) if name == "large" else default_unfolded(view))
state.setdefault("selected", None)
state.setdefault("heard", [])
state.runs = state.get("runs", 0) + 1


def select(node: str) -> None:
    state.selected = node or None
    state.heard.append(f"select {node}")


def toggle(path: str) -> None:
    state.unfolded = state.unfolded ^ {path}
    state.heard.append(f"toggle {path}")


obey_graph("graph", "", select, toggle, lambda name: True)
columns = st.columns(5)
marked = columns[0].toggle("Marks", key="marked")
dim = columns[1].toggle("Dim", key="dimmed")
columns[2].button("Select output", on_click=lambda: state.update(selected="output"))
columns[3].button("Forget", on_click=lambda: state.update(selected=None))
hidden = columns[4].toggle("Hide", key="hidden")

picture, packed = layout_of(name, state.unfolded)
if not hidden:
    graph_component(
        packed,
        picture.id,
        key="graph",
        marks=resolve(marks_of(view), picture.graph, PASSES) if marked else None,
        selected=state.selected,
        dim=dim,
        height=680,
        title=name,
        subject=name,
    )
st.text(f"runs {state.runs}")
st.text(f"selected {state.selected}")
st.text(f"heard {' | '.join(state.heard)}")
