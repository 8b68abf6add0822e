"""One layout of two graphs, as each and as both, for test_sides.py: `streamlit run sides_script.py`."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from fxopt.ui.graph_component import graph_code, graph_component, obey_graph
from fxopt.view import GraphView, Mark, NodeView, families, layout, layout_both, pack, resolve, visible
from fxopt.view.comparison import GONE
from tests.view import graphs

PARTS = ("query", "key", "value")


def merged(view: GraphView) -> GraphView:
    """`view` as MergeLinears leaves it in layer 0, with the division of layer 1 taken out."""
    names = {f"layer_0_{part}" for part in PARTS}
    stack = view.by_name["layer_0_query"].modules
    new = NodeView("merged", "call_module", "layer.0.merged", "linear", "Linear", stack, "", "")
    nodes: list[NodeView] = []
    for node in view.nodes:
        if node.name == "layer_0_query":
            nodes.append(new)
        if node.name in names:
            node = replace(node, op="call_function", target="operator.getitem", kind="shape", called="")
        if node.name != "truediv_1":
            nodes.append(node)
    edges: dict[tuple[str, str], None] = {}
    for source, target in view.edges:
        if target in names:
            edges |= {(source, "merged"): None, ("merged", target): None}
        elif target == "truediv_1":
            edges |= {(source, user): None for first, user in view.edges if first == "truediv_1"}
        elif source != "truediv_1":
            edges[source, target] = None
    return GraphView(tuple(nodes), tuple(edges))


st.set_page_config(layout="wide")
graph_code()
before = GraphView.of(graphs.tower())
after = merged(before)
state = st.session_state
state.setdefault("unfolded", frozenset(before.module_classes))
state.setdefault("selected", None)
state.runs = state.get("runs", 0) + 1

for pane_key in ("left", "graph"):
    obey_graph(
        pane_key,
        "",
        lambda name: state.update(selected=name),
        lambda path: state.update(unfolded=state.unfolded ^ {path}),
        lambda name: True,
    )
arrangement = st.segmented_control("View", ["before", "after", "both", "side by side"], default="before", required=True)
changed = st.toggle("Changed", value=True)
base = layout(visible(before, state.unfolded))
picture = layout_both(base, visible(after, state.unfolded)) if changed else base
marks = {
    "before": {"truediv_1": [Mark("removed")], **{f"layer_0_{part}": [Mark("changed")] for part in PARTS}},
    "after": {"merged": [Mark("created")], **{f"layer_0_{part}": [Mark("changed")] for part in PARTS}},
}
related = families([["merged", *(f"layer_0_{part}{end}" for part in PARTS for end in ("", GONE))]], picture.graph)


def pane(key: str, side: str, link: str | None = None) -> None:
    graph_component(
        pack(picture) if key == "graph" else None,
        picture.id,
        key=key,
        side=side,  # type: ignore[arg-type]
        marks=resolve(marks.get(side, {**marks["before"], **marks["after"]}), picture.graph, ["MergeLinears"]),
        related=related,
        link=link,
        selected=state.selected,
        title=key,
        subject="tower",
    )


if arrangement == "side by side":
    for column, key, side in zip(st.columns(2), ("left", "graph"), ("before", "after")):
        with column:
            pane(key, side, link="both")
else:
    pane("graph", arrangement or "before")
st.text(f"runs {state.runs}")
st.text(f"selected {state.selected}")
