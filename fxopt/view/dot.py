"""The graph as DOT text, for people who want to take it elsewhere."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

from fxopt.view.graph_view import GraphView
from fxopt.view.visible import HIDDEN_FIRST, Item, VisibleGraph, module_title, visible

FILLS = {
    "io": "#e8eaed",
    "linear": "#cfe2f9",
    "conv": "#d3ecdb",
    "norm": "#f7e3c3",
    "activation": "#f9d9d0",
    "attention": "#e2d6f5",
    "embedding": "#cdecec",
    "arithmetic": "#f2efd0",
    "shape": "#ececec",
    "constant": "#f4f4f4",
    "other": "#ffffff",
    "group": "#ffffff",
}
"""Light fills by kind, for paper; the page has its own colors, which follow its theme."""


def to_dot(view: GraphView, unfolded: Collection[str] | None = None, hide: Collection[str] = HIDDEN_FIRST) -> str:
    """Return `view` as DOT with one cluster a module; every module is open unless `unfolded` says otherwise.

    Names and labels may hold any characters: quotes, ``->``, ``|``, braces, backslashes, line ends.
    """
    import graphviz

    graph = visible(view, view.module_classes if unfolded is None else unfolded, hide)
    # A node's DOT name is a number, so that a colon or a port in its own name cannot be misread.
    dot = graphviz.Digraph(
        node_attr={"shape": "box", "style": "filled,rounded", "fontname": "Helvetica", "fontsize": "11"},
        edge_attr={"color": "#777777", "arrowsize": "0.6", "fontname": "Helvetica", "fontsize": "9"},
        graph_attr={"fontname": "Helvetica", "fontsize": "10", "label": escaped(graph.caption)},
    )
    _write(dot, graph)
    reads = {(source, target): text for source, target, text in graph.reads}
    for source, target in graph.edges:
        text = reads.get((source, target))
        dot.edge(str(source), str(target), **({"headlabel": escaped(text), "labeldistance": "1.6"} if text else {}))
    return str(dot.source)


def escaped(text: str) -> str:
    r"""Return `text` as a DOT label that reads as `text`: backslashes, entities and line ends mean themselves.

    >>> print(escaped("a\\N & b\n"))
    a\\N &amp; b\n
    """
    import graphviz

    plain = text.replace("\0", "").replace("&", "&amp;").replace("\r\n", "\n").replace("\\", "\\\\")
    # A label in angle brackets would be read as HTML.
    return cast(str, graphviz.nohtml(plain.replace("\n", "\\n")))


def _write(dot: Any, graph: VisibleGraph) -> None:
    import graphviz

    clusters: dict[str, Any] = {"": dot}
    nested: list[tuple[str, str]] = []
    for index, item in enumerate(graph.items):
        parent = ""
        for path, name in item.modules:
            if path not in clusters:
                title = module_title(path, name)
                clusters[path] = graphviz.Digraph(name=f"cluster_{len(clusters)}")
                clusters[path].attr(label=escaped(title), style="rounded", color="#bbbbbb", tooltip=escaped(path))
                nested.append((parent, path))
            parent = path
        _box(clusters[parent], index, item)
    # Innermost first: a subgraph is copied into its parent as it stands.
    for parent, path in reversed(nested):
        clusters[parent].subgraph(clusters[path])


def _box(dot: Any, index: int, item: Item) -> None:
    label = escaped("\n".join(filter(None, (item.title.replace("\n", " "), item.subtitle))))
    style = "filled,rounded,bold" if item.path else "filled,rounded"
    tooltip = escaped(item.name.removeprefix("@"))
    dot.node(str(index), label, tooltip=tooltip, fillcolor=FILLS[item.kind], style=style)
