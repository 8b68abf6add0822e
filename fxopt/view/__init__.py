"""A graph as plain data: what is shown, where it stands, what is marked. Knows torch, never Streamlit.

view = GraphView.of(gm)                                  # nodes and edges as frozen plain data
shown = visible(view, default_unfolded(view))            # modules folded, plumbing left out
picture = layout(shown)                                  # positions, from graphviz or the fallback
marks = resolve(marks_by_node_name, shown)               # what to highlight; needs no new layout
"""

from fxopt.view.dot import to_dot
from fxopt.view.folding import default_unfolded
from fxopt.view.graph_view import GraphView
from fxopt.view.layout import Layout, layout, pack
from fxopt.view.marks import Mark, PassStyle, ResolvedMarks, resolve, styles_of
from fxopt.view.node_view import NodeView
from fxopt.view.visible import Item, VisibleGraph, visible

__all__ = [
    "GraphView",
    "Item",
    "Layout",
    "Mark",
    "NodeView",
    "PassStyle",
    "ResolvedMarks",
    "VisibleGraph",
    "default_unfolded",
    "layout",
    "pack",
    "resolve",
    "styles_of",
    "to_dot",
    "visible",
]
