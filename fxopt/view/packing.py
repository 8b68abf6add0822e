"""A layout as bytes for the browser. Numbers are stored as differences from their neighbors.

An edge begins at its box and goes on in short steps, and boxes stand in rows, so most numbers are small and many are
alike: a flat BERT takes half the bytes. `component/unpack.js` unpacks it.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from typing import Any

from fxopt.view.layout import Layout, as_json


def pack(picture: Layout) -> bytes:
    """Return `Layout.payload` as the browser component takes it: JSON, gzipped, the same bytes each time."""
    return gzip.compress(as_json(condensed(picture.payload())).encode(), 6, mtime=0)


def condensed(payload: dict[str, Any]) -> dict[str, Any]:
    """Return `payload` with boxes, ends and curves as differences."""
    boxes, ends = payload["boxes"], payload["ends"]
    return {
        **payload,
        "boxes": list(_boxes(boxes)),
        "ends": list(_ends(ends)),
        "curves": [_curve(curve, boxes, ends[2 * edge]) for edge, curve in enumerate(payload["curves"])],
    }


def _boxes(boxes: Sequence[int]) -> Iterator[int]:
    """Yield corners by the way from the corner before; sizes as they are."""
    x = y = 0
    for at in range(0, len(boxes), 4):
        yield from (boxes[at] - x, boxes[at + 1] - y, *boxes[at + 2 : at + 4])
        x, y = boxes[at], boxes[at + 1]


def _ends(ends: Sequence[int]) -> Iterator[int]:
    """Yield sources by the step from the source before, targets by that from their source."""
    before = 0
    for at in range(0, len(ends), 2):
        yield from (ends[at] - before, ends[at + 1] - ends[at])
        before = ends[at]


def _curve(curve: Sequence[int], boxes: Sequence[int], source: int) -> list[int]:
    """Return points by the way from the point before; the first from the middle of its box's lower side."""
    x, y, w, h = boxes[4 * source : 4 * source + 4]
    told = []
    before = (x + w // 2, y + h)
    for at in range(0, len(curve), 2):
        point = (curve[at], curve[at + 1])
        told += [point[0] - before[0], point[1] - before[1]]
        before = point
    return told
