"""New boxes in an existing layout: rows are opened for them, and all else keeps its x.

A new box stands just above its readers. There the picture is cut across, and all that lies below moves down; so every
box, frame and edge keeps its x and its neighbors, and the same two graphs give the same picture again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from fxopt.view.engine import Box, Curve, Placement
from fxopt.view.visible import Item

GAP_X, GAP_Y = 16.0, 28.0
MARGIN, TITLE = 8.0, 26.0
NEAR = 10.0
"""Boxes of one row differ in height by less: boxes that are to stand above them share one new row."""

NARROWEST = 48.0


def graft(
    base: Placement,
    items: Sequence[Item],
    sizes: Sequence[tuple[int, int]],
    created: Sequence[int],
    edges: Iterable[tuple[int, int]],
) -> Placement:
    """Make room in `base` for the `created` boxes, given in an order that follows the data.

    `base` has a box for each of `items`; those of `created` are placeholders there. The `sizes` are those that boxes
    ask for; one that is wider than its frame is cut to it. `edges` are those of the graph that has the new boxes.
    """
    grown = _Growth(base, items, sizes, created, edges)
    for band in reversed(grown.bands()):
        grown.fill(band)
    return grown.placement()


@dataclass
class _Band:
    """A cut across the picture, and the rows of new boxes in it, the lowest first."""

    y: float
    members: list[int] = field(default_factory=list)
    rows: list[list[int]] = field(default_factory=list)


class _Growth:
    def __init__(
        self,
        base: Placement,
        items: Sequence[Item],
        sizes: Sequence[tuple[int, int]],
        created: Sequence[int],
        edges: Iterable[tuple[int, int]],
    ) -> None:
        self.base, self.items, self.sizes, self.created = base, items, sizes, created
        self.inputs: dict[int, list[int]] = {index: [] for index in created}
        self.users: dict[int, list[int]] = {index: [] for index in created}
        for source, target in edges:
            if source in self.users:
                self.users[source].append(target)
            if target in self.inputs:
                self.inputs[target].append(source)
        self._all: list[_Band] = []
        self._span: dict[int, tuple[float, float]] = {}
        """Of each new box that is placed: where it begins, and its width."""

    # ---- where to cut

    def bands(self) -> list[_Band]:
        """Return the cuts from the top down, with the boxes that go into each."""
        cut: dict[int, float] = {}
        for index in reversed(self.created):
            cut[index] = self._cut(index, cut)
        walls = sorted(edge for _, y, _, h in self.base.clusters.values() for edge in (y, y + h))
        for index in sorted(self.created, key=cut.__getitem__):
            last = self._all[-1] if self._all else None
            if last is None or cut[index] > last.y + NEAR or _between(walls, last.y, cut[index]):
                last = _Band(cut[index])
                self._all.append(last)
            last.members.append(index)
        return self._all

    def _cut(self, index: int, cut: dict[int, float]) -> float:
        own = self._frames(index)
        tops = [cut[user] if user in cut else self._edge(user, own, above=True) - 1 for user in self.users[index]]
        inputs = [other for other in self.inputs[index] if other not in self.users]
        bottoms = [self._edge(other, own, above=False) + GAP_Y - 1 for other in inputs]
        y = min(tops) if tops else max(bottoms, default=0.0)
        if own:
            _, top, _, height = self.base.clusters[own[-1]]
            y = min(max(y, top + TITLE), top + height - MARGIN)
        return y

    def _frames(self, index: int) -> list[str]:
        return [path for path, _ in self.items[index].modules if path in self.base.clusters]

    def _edge(self, index: int, own: Sequence[str], above: bool) -> float:
        """Return the top or bottom of a box together with the frames around it that are outside `own`."""
        foreign = [self.base.clusters[path] for path in self._frames(index) if path not in own]
        around = [self.base.boxes[index], *foreign]
        return min(y for _, y, _, _ in around) if above else max(y + h for _, y, _, h in around)

    # ---- where in the row

    def fill(self, band: _Band) -> None:
        """Give the boxes of a band their rows and their x. Their readers are placed before."""
        row_of: dict[int, int] = {}
        wishes = {}
        order = {index: place for place, index in enumerate(band.members)}
        for index in sorted(order, key=self.created.index, reverse=True):
            row_of[index] = 1 + max((row_of[user] for user in self.users[index] if user in row_of), default=-1)
        for index in sorted(order, key=lambda index: row_of[index]):
            wishes[index] = self._wish(index)
            row = row_of[index]
            while not self._stand(band, row, index, wishes[index]):
                row += 1
        band.rows = [row for row in band.rows if row]

    def _wish(self, index: int) -> float:
        """Return the best x for the center of a box."""
        for neighbors in (self.users[index], self.inputs[index]):
            found = [self._center(other) for other in neighbors if other not in self.users or other in self._span]
            if found:
                return sum(found) / len(found)
        left, right = self._room(index)
        return (left + min(right, self.base.width)) / 2

    def _center(self, index: int) -> float:
        x, width = self._span.get(index) or self.base.boxes[index][::2]
        return x + width / 2

    def _room(self, index: int) -> tuple[float, float]:
        own = self._frames(index)
        if not own:
            return 0.0, float("inf")
        x, _, width, _ = self.base.clusters[own[-1]]
        return x + MARGIN, x + width - MARGIN

    def _stand(self, band: _Band, row: int, index: int, wish: float) -> bool:
        """Place a box in a row, as near to `wish` as there is room. In a row of its own it is placed in any case."""
        while len(band.rows) <= row:
            band.rows.append([])
        left, right = self._room(index)
        width = max(min(self.sizes[index][0], right - left), NARROWEST)
        taken = sorted([*self._obstacles(band, index), *(self._kept(other) for other in band.rows[row])])
        wished = min(max(wish - width / 2, left), max(right - width, left))
        places = [wished, *(end for _, end in taken), *(start - width for start, _ in taken)]
        free = [
            x
            for x in places
            if left <= x <= right - width and all(x + width <= start or x >= end for start, end in taken)
        ]
        if not free and band.rows[row]:
            return False
        self._span[index] = min(free, key=lambda x: abs(x - wished), default=wished), width
        band.rows[row].append(index)
        return True

    def _kept(self, index: int) -> tuple[float, float]:
        x, width = self._span[index]
        return x - GAP_X, x + width + GAP_X

    def _obstacles(self, band: _Band, index: int) -> Iterator[tuple[float, float]]:
        """Yield the spans that the cut goes through, and that so stand beside the new row."""
        own = self._frames(index)
        for i, (x, y, w, h) in enumerate(self.base.boxes):
            if y < band.y < y + h and i not in self.users:
                yield x - GAP_X, x + w + GAP_X
        for path, (x, y, w, h) in self.base.clusters.items():
            if path not in own and y < band.y < y + h:
                yield x - GAP_X, x + w + GAP_X

    # ---- the picture

    def placement(self) -> Placement:
        base = self.base
        opened: list[tuple[float, float]] = []
        boxes: dict[int, Box] = {}
        for band in self._all:
            y = band.y + sum(height for _, height in opened)
            start = y
            for row in reversed(band.rows):
                tallest = max(self.sizes[index][1] for index in row)
                for index in row:
                    x, width = self._span[index]
                    height = self.sizes[index][1]
                    boxes[index] = (x, y + (tallest - height) / 2, width, height)
                y += tallest + GAP_Y
            opened.append((band.y, y - start))
        moved = _Moved(opened)
        curves = {(a, b): moved.curve(curve, base.boxes[a], base.boxes[b]) for (a, b), curve in base.edges.items()}
        return Placement(
            boxes=tuple(boxes.get(i) or moved.box(box) for i, box in enumerate(base.boxes)),
            clusters={path: moved.frame(box) for path, box in base.clusters.items()},
            edges=curves,
            width=max([base.width, *(x + width for x, _, width, _ in boxes.values())]),
            height=base.height + sum(height for _, height in opened),
        )


class _Moved:
    """Map from old to new places when the picture is opened at some heights."""

    def __init__(self, opened: Sequence[tuple[float, float]]) -> None:
        self._cuts = [y for y, _ in opened]
        self._shifts = [0.0, *accumulate(height for _, height in opened)]

    def __call__(self, y: float) -> float:
        return y + self._shifts[bisect_right(self._cuts, y)]

    def box(self, box: Box) -> Box:
        x, y, w, h = box
        return x, self(y), w, h

    def frame(self, box: Box) -> Box:
        x, y, w, h = box
        return x, self(y), w, self(y + h) - self(y)

    def curve(self, points: Curve, source: Box, target: Box) -> Curve:
        moved = [self(value) if place % 2 else value for place, value in enumerate(points)]
        # A box beside a new row stays whole, and so does its edge's end on it.
        moved[1] = points[1] + self(source[1]) - source[1]
        moved[-1] = points[-1] + self(target[1]) - target[1]
        return tuple(moved)


def _between(values: Sequence[float], low: float, high: float) -> bool:
    return bisect_right(values, low) < bisect_right(values, high)
