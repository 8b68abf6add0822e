"""Layered layout in pure Python: plainer than graphviz's; it always ends, and frames are always apart.

Each open module is laid out on its own and then stands in its parent as one box (Sugiyama's layers by the longest path,
barycenter sweeps for the order in a layer). It takes linear time, apart from the sorting of layers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from fxopt.view.engine import Placement
from fxopt.view.visible import Item

GAP_X, GAP_Y = 16.0, 28.0
MARGIN, TITLE = 10.0, 20.0
SWEEPS = 4


@dataclass
class _Part:
    """A module or a box in its parent; `x` and `y` count from the parent's corner."""

    width: float
    height: float
    x: float = 0.0
    y: float = 0.0
    parts: list[int | str] = field(default_factory=list)
    links: dict[tuple[int | str, int | str], None] = field(default_factory=dict)


def place_without_engine(
    items: Sequence[Item], sizes: Sequence[tuple[int, int]], edges: Sequence[tuple[int, int]]
) -> Placement:
    """Place boxes of `sizes` so that edges lead down."""
    parts: dict[int | str, _Part] = {"": _Part(0, 0)}
    chains: dict[str, list[str]] = {"": [""]}
    stacks: list[list[str]] = []
    for index, item in enumerate(items):
        parent = ""
        for path, _ in item.modules:
            # A module that several others share stands in the first of them.
            if path not in parts:
                parts[path] = _Part(0, 0)
                parts[parent].parts.append(path)
                chains[path] = [*chains[parent], path]
            parent = path
        parts[index] = _Part(*sizes[index])
        parts[parent].parts.append(index)
        stacks.append(chains[parent])
    for source, target in edges:
        ways: list[list[int | str]] = [[*stacks[source][1:], source], [*stacks[target][1:], target]]
        common = 0
        while ways[0][common] == ways[1][common]:
            common += 1
        parent = stacks[source][common]
        parts[parent].links[ways[0][common], ways[1][common]] = None

    for path in sorted(chains, key=lambda path: len(chains[path]), reverse=True):
        _arrange(parts[path], parts, MARGIN if path else 0.0, MARGIN + TITLE if path else 0.0)
    return _absolute(parts, stacks, edges)


def _arrange(whole: _Part, parts: dict[int | str, _Part], margin: float, top: float) -> None:
    """Place the parts of `whole`, and so give it its size."""
    layers = _layers(whole)
    before: dict[int | str, list[int | str]] = defaultdict(list)
    after: dict[int | str, list[int | str]] = defaultdict(list)
    for source, target in whole.links:
        before[target].append(source)
        after[source].append(target)
    center: dict[int | str, float] = {}
    for layer in layers:
        _spread(layer, parts, center, before)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 1
        for layer in layers if down else reversed(layers):
            _spread(layer, parts, center, before if down else after)
    left = min((center[key] - parts[key].width / 2 for key in whole.parts), default=0.0)
    y = top
    for layer in layers:
        tallest = max(parts[key].height for key in layer)
        for key in layer:
            parts[key].x = center[key] - parts[key].width / 2 - left + margin
            parts[key].y = y + (tallest - parts[key].height) / 2
        y += tallest + GAP_Y
    right = max((parts[key].x + parts[key].width for key in whole.parts), default=0.0)
    whole.width, whole.height = right + margin, y - GAP_Y + margin


def _layers(whole: _Part) -> list[list[int | str]]:
    """Return the parts by their longest distance from a source. A circle is cut where program order closes it."""
    place = {key: number for number, key in enumerate(whole.parts)}
    after: dict[int | str, list[int | str]] = defaultdict(list)
    waits = dict.fromkeys(whole.parts, 0)
    for source, target in whole.links:
        after[source].append(target)
        waits[target] += 1
    rank = dict.fromkeys(whole.parts, 0)
    ready = [key for key in whole.parts if not waits[key]]
    left = dict.fromkeys(whole.parts)
    while left:
        if not ready:
            ready.append(next(iter(left)))
        key = ready.pop()
        if key not in left:
            continue
        del left[key]
        for user in after[key]:
            if user in left:
                rank[user] = max(rank[user], rank[key] + 1)
            waits[user] -= 1
            if not waits[user] and user in left:
                ready.append(user)
    has_source = {target for _, target in whole.links}
    for key in whole.parts:
        if after[key] and key not in has_source:
            # A part without inputs stands just above its first user, not at the top of a long picture.
            rank[key] = max(min(rank[user] for user in after[key]) - 1, 0)
    layers: dict[int, list[int | str]] = defaultdict(list)
    for key in sorted(whole.parts, key=lambda key: (rank[key], place[key])):
        layers[rank[key]].append(key)
    return [layers[number] for number in sorted(layers)]


def _spread(
    layer: list[int | str],
    parts: dict[int | str, _Part],
    center: dict[int | str, float],
    neighbors: dict[int | str, list[int | str]],
) -> None:
    """Order a layer by where its neighbors stand, and move its parts apart around that place."""
    want = {}
    for number, key in enumerate(layer):
        known = [center[other] for other in neighbors[key] if other in center]
        want[key] = sum(known) / len(known) if known else center.get(key, float(number))
    layer.sort(key=lambda key: want[key])
    edge = float("-inf")
    for key in layer:
        half = parts[key].width / 2
        center[key] = max(want[key], edge + GAP_X + half)
        edge = center[key] + half
    shift = sum(want[key] - center[key] for key in layer) / len(layer)
    for key in layer:
        center[key] += shift


def _absolute(
    parts: dict[int | str, _Part], stacks: Sequence[Sequence[str]], edges: Sequence[tuple[int, int]]
) -> Placement:
    corner: dict[int | str, tuple[float, float]] = {"": (0.0, 0.0)}
    boxes = []
    for index, stack in enumerate(stacks):
        ways: list[int | str] = [*stack[1:], index]
        for parent, key in zip(stack, ways):
            if key not in corner:
                corner[key] = (corner[parent][0] + parts[key].x, corner[parent][1] + parts[key].y)
        boxes.append((*corner[index], parts[index].width, parts[index].height))
    clusters = {
        key: (*corner[key], parts[key].width, parts[key].height) for key in parts if isinstance(key, str) and key
    }
    curves = {}
    for source, target in edges:
        (ax, ay, aw, ah), (bx, by, bw, _) = boxes[source], boxes[target]
        x0, y0, x1, y1 = ax + aw / 2, ay + ah, bx + bw / 2, by
        bend = max(abs(y1 - y0) * 0.4, 12.0)
        curves[source, target] = (x0, y0, x0, y0 + bend, x1, y1 - bend, x1, y1)
    return Placement(tuple(boxes), clusters, curves, parts[""].width, parts[""].height)
