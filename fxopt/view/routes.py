"""Routes of the edges that the engine left undrawn: along drawn ones if possible, else straight down or around."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from fxopt.view.engine import Box, Curve, Placement

LONGEST = 4
"""So many removed boxes in a row are looked through for the way that an edge went before."""

LANES = 24
"""So many ways around the boxes between two others are tried, the shortest first."""

BESIDE = 10.0
"""The distance from a box at which an edge passes it."""

TURN = 24.0
"""The height in which an edge turns into its lane, and out of it; rows are a little farther apart."""


class Routes:
    """Routes edges in `placement`, which has curves for the edges that were there before.

    Args:
        removed: boxes that no edge of the new graph touches; an edge may go where they were.
        created: boxes that no old edge touches.
    """

    def __init__(
        self,
        placement: Placement,
        removed: Collection[int],
        created: Collection[int],
        edges: Collection[tuple[int, int]],
    ) -> None:
        self._boxes, self._curves = placement.boxes, placement.edges
        self._removed, self._created = frozenset(removed), frozenset(created)
        left, top, width, height = np.array(placement.boxes).reshape(-1, 4).T
        self._sides = left, left + width
        self._heights = top, top + height
        self._still = np.ones(len(placement.boxes), dtype=bool)
        """Whether a box stands in the new graph."""
        self._still[[*self._removed]] = False
        self._after: dict[int, list[int]] = {}
        for source, target in placement.edges:
            self._after.setdefault(source, []).append(target)
        self._users: dict[int, list[int]] = {}
        self._inputs: dict[int, list[int]] = {}
        for source, target in edges:
            self._users.setdefault(source, []).append(target)
            self._inputs.setdefault(target, []).append(source)

    def route(self, source: int, target: int) -> Curve:
        """Return a way from the one box to the other: of those tried, the first that crosses the fewest boxes."""
        if way := self._through_removed(source, target):
            return self._joined(way)
        start, end = _bottom(self._boxes[source]), _top(self._boxes[target])
        ways = [_bow(start, end)]
        if target in self._created:
            known = (self._curves.get((source, user), ()) for user in self._behind(target))
            ways += [_led(curve, end) for curve in known if len(curve) >= 8]
        if source in self._created:
            ways += [_joining(start, curve) for curve in self._into(source, target)]
        best, crossed = self._best(ways, source, target)
        if not crossed:
            return best
        return self._best([best, *self._around(source, target)], source, target)[0]

    def _best(self, ways: Sequence[Curve], source: int, target: int) -> tuple[Curve, int]:
        """Return the first way that crosses the fewest boxes, and their number."""
        best, fewest = ways[0], self._crossed(ways[0], source, target)
        for curve in ways[1:]:
            if not fewest:
                break
            crossed = self._crossed(curve, source, target)
            if crossed < fewest:
                best, fewest = curve, crossed
        return best, fewest

    def _around(self, source: int, target: int) -> list[Curve]:
        """Return ways beside the boxes that stand between two, the shortest first; none where it would lead upwards."""
        (x0, y0), (x1, y1) = _bottom(self._boxes[source]), _top(self._boxes[target])
        if y1 - y0 < 2 * TURN:
            return []
        between = [
            (x, width)
            for index, (x, y, width, height) in enumerate(self._boxes)
            if y < y1 and y + height > y0 and index not in self._removed and index not in (source, target)
        ]
        lanes = {round(x - BESIDE) for x, _ in between} | {round(x + width + BESIDE) for x, width in between}
        nearest = sorted((x for x in lanes if x >= 0), key=lambda x: (abs(x - x0) + abs(x - x1), x))[:LANES]
        return [
            (
                *_bow((x0, y0), (x, y0 + TURN)),
                *_line((x, y0 + TURN), (x, y1 - TURN)),
                *_bow((x, y1 - TURN), (x1, y1))[2:],
            )
            for x in nearest
        ]

    def _crossed(self, curve: Curve, source: int, target: int) -> int:
        """Return the number of boxes that a way crosses. One that turns back upwards is as bad as any can be."""
        points = sampled(curve)
        if (np.diff(points[:, 1]) < -1).any() and self._boxes[target][1] > self._boxes[source][1]:
            return len(self._boxes)
        x, y = points[np.argsort(points[:, 1])].T
        (top, bottom), (left, right) = self._heights, self._sides
        first, end = np.searchsorted(y, top, side="right"), np.searchsorted(y, bottom, side="left")
        many = np.maximum(end - first, 0)  # points of the way between top and bottom of a box, by box
        box = np.repeat(np.arange(len(many)), many)
        at = np.arange(len(box)) + np.repeat(first - np.cumsum(many) + many, many)
        inside = np.zeros(len(many), dtype=bool)
        inside[box[(x[at] > left[box]) & (x[at] < right[box])]] = True
        inside[[source, target]] = False
        return int((inside & self._still).sum())

    def _through_removed(self, source: int, target: int) -> tuple[int, ...]:
        """Return the boxes on the old way between two, all but the ends removed; empty if there is no such way."""
        came_from: dict[int, int] = {}
        front = [source]
        for _ in range(LONGEST + 1):
            reached = []
            for index in front:
                for user in self._after.get(index, ()):
                    if user not in came_from:
                        came_from[user] = index
                        reached.append(user)
            if target in came_from:
                way = [target]
                while way[-1] != source:
                    way.append(came_from[way[-1]])
                return tuple(reversed(way))
            front = [index for index in reached if index in self._removed]
        return ()

    def _joined(self, way: Sequence[int]) -> Curve:
        points = [*self._curves[way[0], way[1]]]
        for step in pairwise(way[1:]):
            curve = self._curves[step]
            points = [*_bezier(points), *_line(points[-2:], curve[:2]), *_bezier(curve)[2:]]
        return tuple(points)

    def _into(self, source: int, target: int) -> list[Curve]:
        """Return the old ways into a box from the inputs of a new one; they lead around the boxes between."""
        found, seen, todo = [], {source}, [source]
        while todo:
            for other in self._inputs.get(todo.pop(), ()):
                curve = self._curves.get((other, target), ())
                if len(curve) >= 8:
                    found.append(curve)
                if other in self._created and other not in seen:
                    seen.add(other)
                    todo.append(other)
        return found

    def _behind(self, index: int) -> list[int]:
        """Return the old boxes that a new one leads to, through new ones alone."""
        found, todo, seen = [], [index], {index}
        while todo:
            for user in self._users.get(todo.pop(), ()):
                if user in seen:
                    continue
                seen.add(user)
                if user in self._created:
                    todo.append(user)
                else:
                    found.append(user)
        return found


def _top(box: Box) -> tuple[float, float]:
    x, y, w, _ = box
    return x + w / 2, y


def _bottom(box: Box) -> tuple[float, float]:
    x, y, w, h = box
    return x + w / 2, y + h


def _bow(start: tuple[float, float], end: tuple[float, float]) -> Curve:
    (x0, y0), (x1, y1) = start, end
    bend = max(abs(y1 - y0) * 0.4, 12.0)
    return x0, y0, x0, y0 + bend, x1, y1 - bend, x1, y1


def _bezier(points: Sequence[float]) -> list[float]:
    """Return a curve in Bézier pieces; a straight line is one piece."""
    return [*points] if len(points) >= 8 else [*points[:2], *_line(points[:2], points[-2:])]


def _line(start: Sequence[float], end: Sequence[float]) -> list[float]:
    """Return the piece that goes on from `start`, short of it, straight to `end`."""
    (x0, y0), (x1, y1) = start, end
    return [x0 + (x1 - x0) / 3, y0 + (y1 - y0) / 3, x0 + 2 * (x1 - x0) / 3, y0 + 2 * (y1 - y0) / 3, x1, y1]


def _led(curve: Curve, end: tuple[float, float]) -> Curve:
    """Return `curve` as far as it stays above `end`, and from there to it."""
    kept = 2
    while kept + 6 <= len(curve) and curve[kept + 5] < end[1] - 12:
        kept += 6
    return (*curve[:kept], *_bow((curve[kept - 2], curve[kept - 1]), end)[2:])


def _joining(start: tuple[float, float], curve: Curve) -> Curve:
    """Return a way from `start` into `curve`, from its first point well below; else straight to the end of `curve`."""
    at = 0
    while at + 2 < len(curve) and curve[at + 1] < start[1] + 24:
        at += 6
    if at + 2 >= len(curve):
        return _bow(start, (curve[-2], curve[-1]))
    return (*_bow(start, (curve[at], curve[at + 1])), *curve[at + 2 :])


def sampled(curve: Curve, apart: float = 12.0) -> npt.NDArray[np.float64]:
    """Return points along a curve of Bézier pieces, no farther apart than a box is high."""
    ends = np.array(curve).reshape(-1, 2)
    pieces = []
    for at in range(0, len(ends) - 3, 3):
        piece = ends[at : at + 4]
        length = np.hypot(*np.diff(piece, axis=0).T).sum()
        share = np.linspace(0, 1, max(9, int(length / apart)))[:, None]
        weights = ((1 - share) ** 3, 3 * share * (1 - share) ** 2, 3 * share**2 * (1 - share), share**3)
        pieces.append(sum(weight * point for weight, point in zip(weights, piece)))
    return np.vstack(pieces)
