"""Layout: the places of all parts of a picture, as frozen plain data; made once for each structure."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

from fxopt.view.comparison import Comparison, Side
from fxopt.view.engine import Placement, engines, place
from fxopt.view.fallback import place_without_engine
from fxopt.view.kinds import KINDS
from fxopt.view.program import EngineError
from fxopt.view.text import box_size
from fxopt.view.visible import VisibleGraph, module_title

PORTALS = ((30, 4), (6, 8))
"""An edge that spans more boxes than the first number, from a box with at least the second number of users, becomes
a portal: masks and rotary tables, which every layer reads, would else cost the engine minutes and cover the picture
with lines. The second pair is for folded pictures, where twelve layers are twelve boxes."""


MOST_FOR_ENGINE = 12_000
"""The most boxes for graphviz, which would run out of time with more: a chain of 20,000 takes it over 20 seconds."""


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

    `portals` are edges drawn as stubs. `engine` says who placed the boxes; for a second choice, `note` says why, in a
    sentence for the visitor. In the layout of two graphs, `comparison` says in which of them each part is.
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
    comparison: Comparison | None = None

    def __repr__(self) -> str:
        return f"Layout({len(self.boxes)} boxes, {self.width:.0f} x {self.height:.0f} pixels, by {self.engine})"

    @property
    def is_fallback(self) -> bool:
        return self.engine == "fallback"

    @cached_property
    def id(self) -> str:
        """The same for the same picture to the pixel."""
        return blake2b(as_json(self._picture).encode(), digest_size=12).hexdigest()

    def payload(self) -> dict[str, Any]:
        """Return the data that the browser draws, less the marks: lists in the order of the boxes."""
        return {"id": self.id, **self._picture}

    @cached_property
    def _picture(self) -> dict[str, Any]:
        kinds = list(KINDS)
        items = self.graph.items
        groups = {index: item for index, item in enumerate(items) if item.path}
        return {
            "version": 2,
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
            "reads": [part for read in self.graph.reads for part in read],
            **({"sides": self._sides(self.comparison)} if self.comparison else {}),
        }

    def _sides(self, both: Comparison) -> dict[str, Any]:
        """Return the membership of boxes and edges in two graphs, sparsely, and the texts that differ."""

        def only(sides: Sequence[Side]) -> list[list[int]]:
            return [[i for i, of in enumerate(sides) if of is side] for side in (Side.BEFORE, Side.AFTER)]

        kinds = list(KINDS)
        return {
            "boxes": only(both.boxes),
            "edges": only([both.edges[source, target] for source, target, _ in self.edges]),
            "portals": only([both.edges[pair] for pair in self.portals]),
            "retold": {
                index: [kinds.index(item.kind), item.title, item.subtitle, " ".join(item.members)]
                for index, item in both.retold.items()
            },
            "replaced": [index for pair in both.replaced.items() for index in pair],
            "captions": both.captions,
            "reread": [part for read in both.reread for part in read],
        }


def layout(graph: VisibleGraph, *, timeout: float = 20.0, wanted: Callable[[], bool] = lambda: True) -> Layout:
    """Place the boxes of `graph` with the best engine there is, within `timeout` seconds of engine time.

    If every engine is missing, crashes or takes too long, a plain layered layout is made here, and `Layout.note` says
    so.

    Raises:
        LayoutStoppedError: `wanted`, which is asked now and then, returns False.
    """
    kept, portals = split_portals(graph.edges)
    placement, engine, note = placed(graph, sizes_of(graph), kept, timeout, wanted)
    return assembled(graph, placement, kept, portals, engine, note)


def sizes_of(graph: VisibleGraph) -> list[tuple[int, int]]:
    """Return the size that each box of `graph` needs, in pixels."""
    return [box_size(item.title, item.subtitle, bool(item.path)) for item in graph.items]


def assembled(
    graph: VisibleGraph,
    placement: Placement,
    kept: Sequence[tuple[int, int]],
    portals: Sequence[tuple[int, int]],
    engine: str,
    note: str,
    comparison: Comparison | None = None,
) -> Layout:
    """Return the layout of `graph` as it was placed, with the frames named."""
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
        comparison=comparison,
    )


def placed(
    graph: VisibleGraph,
    sizes: Sequence[tuple[int, int]],
    edges: Sequence[tuple[int, int]],
    timeout: float,
    wanted: Callable[[], bool],
) -> tuple[Placement, str, str]:
    """Return the positions by the best engine, its name, and a note for the visitor."""
    deadline = time.monotonic() + timeout
    notes = []
    found = list(engines())
    if len(graph.items) > MOST_FOR_ENGINE:
        notes.append(f"{len(graph.items):,} boxes are more than graphviz lays out in reasonable time")
        found = []
    for name, program in found:
        left = deadline - time.monotonic()
        if left <= 0:
            break
        try:
            placement = place(program, graph.items, sizes, edges, left, wanted)
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
    """Return the edges to lay out, and those to draw as stubs."""
    users: dict[int, list[int]] = {}
    for source, target in edges:
        users.setdefault(source, []).append(target)
    kept: list[tuple[int, int]] = []
    portals: list[tuple[int, int]] = []
    for source, target in edges:
        of = users[source]
        # The nearest user keeps its line, so that every box has one.
        far = target > min(of) and any(target - source > span and len(of) >= least for span, least in PORTALS)
        (portals if far else kept).append((source, target))
    return kept, portals


def as_json(value: object) -> str:
    """Return `value` as the shortest JSON of it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _numbered(values: Sequence[str]) -> dict[str, list[Any]]:
    """Return repeated texts as a table and numbers into it."""
    table = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return {"table": list(table), "of": [table[value] for value in values]}
