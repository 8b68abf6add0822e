"""Two graphs side by side that share their selection, for the tests of graphs."""

from __future__ import annotations

import streamlit as st

from fxopt.ui.graph_component import graph_code, graph_component, obey_graph
from fxopt.view import GraphView, layout, pack, visible
from tests.view import graphs

st.set_page_config(layout="wide")
graph_code()
view = GraphView.of(graphs.tower())
st.session_state.setdefault("selected", None)
for pane_key in ("before", "after"):
    obey_graph(pane_key, "", lambda name: st.session_state.update(selected=name), lambda path: None, lambda name: True)
for column, key, unfolded in zip(st.columns(2), ("before", "after"), (set(view.module_classes), set[str]())):
    with column:
        picture = layout(visible(view, unfolded))
        graph_component(
            pack(picture),
            picture.id,
            key=key,
            selected=st.session_state.selected,
            title=key,
            subject="tower",
            link="both",
        )
st.text(f"selected {st.session_state.selected}")
