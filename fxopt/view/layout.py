"""Where everything stands in a picture, as frozen plain data; made once for each structure."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

from fxopt.view.engine import EngineError, Placement, engines, place
from fxopt.view.fallback import place_without_engine
from fxopt.view.kinds import KINDS
from fxopt.view.text import box_size
from fxopt.view.visible import VisibleGraph, module_title

PORTALS = ((30, 4), (6, 8))
"""An edge that spans more boxes than the first number, from a box with at least the second number of users, becomes
a portal: masks and rotary tables, which every layer reads, would else cost the engine minutes and cover the picture
with lines. The second pair is for folded pictures, where twelve layers are twelve boxes."""


@dataclass(frozen=True)
class Cluster:
    """The frame around the boxes of an open module."""

    path: str
    title: str
    depth: int
    box: tuple[float, float, float, float]


@dataclass(frozen=True)
class Layout:
    """The boxes of `graph` in pixels from the top left, the frames around modules, and the edges.

    `portals` are edges drawn as stubs. `engine` says who placed the boxes; where that is not the first
    choice, `note` says why, in a sentence for the visitor.
    """

    graph: VisibleGraph
    boxes: tuple[tuple[float, float, float, float], ...]
    clusters: tuple[Cluster, ...]
    edges: tuple[tuple[int, int, tuple[float, ...]], ...]
    portals: tuple[tuple[int, int], ...]
    width: float
    height: float
    engine: str
    note: str = ""

    @property
    def is_fallback(self) -> bool:
        return self.engine == "fallback"

    @cached_property
    def id(self) -> str:
        """The same for the same picture to the pixel."""
        return blake2b(_json(self._picture).encode(), digest_size=12).hexdigest()

    def payload(self) -> dict[str, Any]:
        """What the browser needs to draw, short of marks: lists in the order of the boxes."""
        return {"id": self.id, **self._picture}

    @cached_property
    def _picture(self) -> dict[str, Any]:
        kinds = list(KINDS)
        items = self.graph.items
        groups = {index: item for index, item in enumerate(items) if item.path}
        return {
            "version": 1,
            "width": round(self.width),
            "height": round(self.height),
            "caption": self.graph.caption,
            "note": self.note,
            "kinds": list(KINDS.items()),
            "names": [item.name for item in items],
            "kind": [kinds.index(item.kind) for item in items],
            "titles": [item.title for item in items],
            "subtitles": [item.subtitle for item in items],
            "modules": _numbered([item.modules[-1][0] if item.modules else "" for item in items]),
            "groups": {index: [item.path, " ".join(item.members)] for index, item in groups.items()},
            "boxes": [round(value) for box in self.boxes for value in box],
            "ends": [index for source, target, _ in self.edges for index in (source, target)],
            "curves": [[round(value) for value in points] for _, _, points in self.edges],
            "clusters": [
                [cluster.path, cluster.title, cluster.depth, *map(round, cluster.box)] for cluster in self.clusters
            ],
            "portals": [index for pair in self.portals for index in pair],
        }


def layout(graph: VisibleGraph, *, timeout: float = 20.0) -> Layout:
    """Place the boxes of `graph` with the best engine there is, within `timeout` seconds of engine time.

    Where no engine is installed, or it crashes or takes too long, a plain layered layout is made here,
    and `Layout.note` says so.
    """
    sizes = [box_size(item.title, item.subtitle, bool(item.path)) for item in graph.items]
    kept, portals = split_portals(graph.edges)
    placement, engine, note = _placed(graph, sizes, kept, timeout)
    classes = {path: name for item in graph.items for path, name in item.modules}
    depths = {path: depth for item in graph.items for depth, (path, _) in enumerate(item.modules)}
    clusters = [
        Cluster(path, module_title(path, classes[path]), depths[path], box) for path, box in placement.clusters.items()
    ]
    return Layout(
        graph=graph,
        boxes=placement.boxes,
        clusters=tuple(sorted(clusters, key=lambda cluster: cluster.depth)),
        edges=tuple((source, target, placement.edges[source, target]) for source, target in kept),
        portals=tuple(portals),
        width=placement.width,
        height=placement.height,
        engine=engine,
        note=note,
    )


def _placed(
    graph: VisibleGraph, sizes: Sequence[tuple[int, int]], edges: Sequence[tuple[int, int]], timeout: float
) -> tuple[Placement, str, str]:
    deadline = time.monotonic() + timeout
    notes = []
    for name, program in engines():
        left = deadline - time.monotonic()
        if left <= 0:
            break
        try:
            placement = place(program, graph.items, sizes, edges, left)
            missing = [edge for edge in edges if edge not in placement.edges]
            if missing:
                raise EngineError(f"{program} left out {len(missing)} edges")
        except EngineError as error:
            notes.append(str(error))
            continue
        return placement, name, f"{'; '.join(notes)}; laid out by {name}" if notes else ""
    if not notes:
        notes = ["no graphviz found (pip install graphviz-pure)"]
    note = f"{'; '.join(notes)}; a plain layout is shown"
    return place_without_engine(graph.items, sizes, edges), "fallback", note


def split_portals(edges: Sequence[tuple[int, int]]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The edges to lay out, and those to draw as stubs."""
    users: dict[int, list[int]] = {}
    for source, target in edges:
        users.setdefault(source, []).append(target)
    kept: list[tuple[int, int]] = []
    portals: list[tuple[int, int]] = []
    for source, target in edges:
        of = users[source]
        # The nearest user keeps its line, so that no box floats without any.
        far = target > min(of) and any(target - source > span and len(of) >= least for span, least in PORTALS)
        (portals if far else kept).append((source, target))
    return kept, portals


def pack(picture: Layout) -> bytes:
    """`Layout.payload` as the browser component takes it: JSON, gzipped, the same bytes each time."""
    return gzip.compress(_json(picture.payload()).encode(), 6, mtime=0)


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _numbered(values: Sequence[str]) -> dict[str, list[Any]]:
    """Repeated texts as a table and numbers into it."""
    table = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return {"table": list(table), "of": [table[value] for value in values]}
