"""The layout engine: the program, its input, and the reading of its answer.

Graphviz runs in a child process with a time limit. The DOT is free of the user's text: nodes are integers of a given
size, and the labels are drawn in the browser.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from fxopt.view.program import EngineError, answer_of
from fxopt.view.visible import Item

Box: TypeAlias = tuple[float, float, float, float]
"""x, y, width, height, in pixels from the top left."""

Curve: TypeAlias = tuple[float, ...]
"""x, y, x, y, ...: a straight line (4 numbers), or Bézier pieces that share end points."""

MOST_ANSWER, BYTES_EACH = 2**20, 4_000
"""Bytes of an answer, and so many more for each box and edge. Measured: 180 to 250 for each."""

LARGE = 1500
"""From so many boxes on, straight edges and a short simplex search: else the engine takes minutes."""


@dataclass(frozen=True)
class Placement:
    """The answer of an engine."""

    boxes: tuple[Box, ...]
    clusters: Mapping[str, Box]
    edges: Mapping[tuple[int, int], Curve]
    width: float
    height: float


def engines() -> Iterator[tuple[str, str]]:
    """Yield (name, program) of every engine on this machine, the preferred first."""
    if chosen := os.environ.get("FXOPT_DOT"):
        yield "$FXOPT_DOT", chosen
    beside = str(Path(sys.executable).parent)
    for name in ("graphviz-pure", "dot"):
        program = shutil.which(name, path=beside) or shutil.which(name)
        if program:
            yield name, program


def place(
    program: str,
    items: Sequence[Item],
    sizes: Sequence[tuple[int, int]],
    edges: Sequence[tuple[int, int]],
    timeout: float,
    wanted: Callable[[], bool] = lambda: True,
) -> Placement:
    """Ask `program` where everything goes.

    Raises:
        EngineError: it did not answer with a layout within `timeout` seconds.
        LayoutStoppedError: the layout is no longer `wanted`; the engine was ended.
    """
    text, clusters = dot_text(items, sizes, edges)
    most = MOST_ANSWER + BYTES_EACH * (len(items) + len(edges))
    answer = answer_of([program, "-Tjson0"], text.encode(), timeout, wanted, most)
    try:
        return _read(json.loads(answer), len(items), clusters)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise EngineError(f"{program} answered with something other than a layout ({error!r})") from error


def dot_text(
    items: Sequence[Item], sizes: Sequence[tuple[int, int]], edges: Sequence[tuple[int, int]]
) -> tuple[str, list[str]]:
    """Return the graph in DOT, and the module paths of its clusters, which DOT knows by number."""
    graph = "rankdir=TB,nodesep=0.22,ranksep=0.4,fontsize=11,"
    if len(items) > LARGE:
        graph += "splines=line,nslimit=0.5,nslimit1=0.5,mclimit=0.2"
    else:
        graph += "nslimit=2,nslimit1=2"
    lines = [
        f"digraph {{ graph [{graph}];",
        'node [shape=box,fixedsize=true,label=""]; edge [arrowhead=none];',
    ]
    clusters: list[str] = []
    number_of: dict[str, int] = {}
    inside: dict[str, list[int]] = {"": []}
    nested: dict[str, list[str]] = {"": []}
    for index, item in enumerate(items):
        parent = ""
        for path, _ in item.modules:
            if path not in number_of:
                number_of[path] = len(clusters)
                clusters.append(path)
                inside[path], nested[path] = [], []
                nested[parent].append(path)
            parent = path
        inside[parent].append(index)

    # A stack of the parts still to be written: deep nesting must not meet Python's recursion limit.
    todo: list[tuple[str, bool]] = [("", False)]
    while todo:
        path, written = todo.pop()
        if written:
            lines.append("}")
            continue
        if path:
            # The label only reserves the room in which the browser writes the module's name.
            room = "m" * min(24, len(path.rpartition(".")[2]) + 6)
            lines.append(f'subgraph cluster_{number_of[path]} {{ margin=10; label="{room}";')
            todo.append((path, True))
        for index in inside[path]:
            width, height = sizes[index]
            lines.append(f"{index} [width={width / 72:.3f},height={height / 72:.3f}];")
        todo.extend((child, False) for child in reversed(nested[path]))
    lines.extend(f"{source}->{target};" for source, target in edges)
    lines.append("}")
    return "\n".join(lines), clusters


def _read(answer: dict[str, Any], count: int, paths: Sequence[str]) -> Placement:
    _, _, width, top = map(float, answer["bb"].split(","))
    boxes: list[tuple[float, float, float, float] | None] = [None] * count
    clusters = {}
    number_of = {}
    for found in answer.get("objects", ()):
        name = found["name"]
        if name.startswith("cluster_"):
            left, low, right, high = map(float, found["bb"].split(","))
            clusters[paths[int(name[8:])]] = (left, top - high, right - left, high - low)
            continue
        x, y = map(float, found["pos"].split(","))
        w, h = float(found["width"]) * 72, float(found["height"]) * 72
        boxes[int(name)] = (x - w / 2, top - y - h / 2, w, h)
        number_of[found["_gvid"]] = int(name)
    edges = {}
    for found in answer.get("edges", ()):
        points: list[float] = []
        for pair in found["pos"].split():
            x, y = map(float, pair.split(","))
            points += (x, top - y)
        edges[number_of[found["tail"]], number_of[found["head"]]] = tuple(points)
    placed = tuple(box for box in boxes if box is not None)
    if len(placed) < count:
        raise ValueError(f"{count - len(placed)} boxes have no position")
    numbers = (width, top, *chain(*placed, *clusters.values(), *edges.values()))
    if not all(map(math.isfinite, numbers)):
        raise ValueError("a place is not finite")
    return Placement(placed, clusters, edges, width, top)
