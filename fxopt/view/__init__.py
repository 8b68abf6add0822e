"""A graph as plain data: its boxes, their places and their marks. Knows torch, but not Streamlit.

view = GraphView.of(gm)                                  # nodes and edges as frozen plain data
shown = visible(view, default_unfolded(view))            # modules folded, plumbing left out
picture = layout(shown)                                  # positions, from graphviz or the fallback
both = layout_both(picture, visible(GraphView.of(later)))  # with the changes of a rewrite, and nothing moves sideways
marks = resolve(marks_by_node_name, shown)               # the highlights; they need no new layout
"""

from fxopt.view.comparison import Comparison, Side
from fxopt.view.dot import to_dot
from fxopt.view.folding import default_unfolded
from fxopt.view.graph_view import GraphView
from fxopt.view.layout import Layout, layout
from fxopt.view.layout_both import layout_both
from fxopt.view.marks import Mark, PassStyle, ResolvedMarks, families, resolve, styles_of
from fxopt.view.node_view import NodeView
from fxopt.view.packing import pack
from fxopt.view.svg import to_picture, to_svg
from fxopt.view.visible import Item, VisibleGraph, visible

__all__ = [
    "Comparison",
    "GraphView",
    "Item",
    "Layout",
    "Mark",
    "NodeView",
    "PassStyle",
    "ResolvedMarks",
    "Side",
    "VisibleGraph",
    "default_unfolded",
    "families",
    "layout",
    "layout_both",
    "pack",
    "resolve",
    "styles_of",
    "to_dot",
    "to_picture",
    "to_svg",
    "visible",
]
