"""Routes of the edges that no engine draws."""

from __future__ import annotations

import random

import pytest

from fxopt.view.engine import Curve, Placement
from fxopt.view.routes import Routes, sampled


def crossed(curve: Curve, placement: Placement, left_out: set[int]) -> int:
    """The boxes that a way crosses, box by box and point by point."""
    points = sampled(curve)
    return sum(
        any(x < at[0] < x + width and y < at[1] < y + height for at in points)
        for index, (x, y, width, height) in enumerate(placement.boxes)
        if index not in left_out
    )


@pytest.mark.parametrize("seed", range(20))
def test_a_way_is_the_first_that_crosses_the_fewest_boxes(seed: int) -> None:
    draw = random.Random(seed)
    boxes = tuple(
        (draw.uniform(0, 400), draw.uniform(100, 800), draw.uniform(20, 120), draw.uniform(20, 50)) for _ in range(30)
    )
    ends = ((150.0, 0.0, 60.0, 30.0), (draw.uniform(0, 400), 900.0, 60.0, 30.0))
    placement = Placement((*ends, *boxes), {}, {}, 600.0, 1000.0)
    removed = {index for index in range(2, 32) if draw.random() < 0.2}
    routes = Routes(placement, removed, set(), [(0, 1)])
    left_out = {0, 1, *removed}
    straight = (180.0, 30.0, 180.0, 378.0, ends[1][0] + 30, 552.0, ends[1][0] + 30, 900.0)
    ways = [straight, *routes._around(0, 1)]
    found = routes.route(0, 1)
    counts = [crossed(way, placement, left_out) for way in ways]
    assert found == pytest.approx(ways[counts.index(min(counts))])
    assert crossed(found, placement, left_out) == min(counts)
