"""One layout for two graphs, in which shared nodes stand in one place."""

from __future__ import annotations

from collections.abc import Callable

from fxopt.view.comparison import Comparison, Side
from fxopt.view.engine import Box, Curve, Placement
from fxopt.view.graft import graft
from fxopt.view.layout import Layout, assembled, placed, sizes_of, split_portals
from fxopt.view.routes import Routes, sampled
from fxopt.view.visible import VisibleGraph

MOST_NEW, SHARE_NEW = 80, 0.5
"""A picture takes in so many new boxes, or such a share of those it has, before it is laid out anew."""

FAR = 1500.0
"""A new edge longer than this, from a box with portals, is a portal as well."""


def layout_both(
    base: Layout, after: VisibleGraph, *, timeout: float = 20.0, wanted: Callable[[], bool] = lambda: True
) -> Layout:
    """Return one picture for two graphs: `base`, which shows one of them, with the additions of `after`.

    The parts of `base` keep their x, and their order from top to bottom. Rows are opened for new parts. If these are so
    many that the picture would be another, both graphs are laid out anew together, and `Layout.note` says so. `base`
    itself is given back if the two look alike. `timeout` and `wanted` are those of `layout`.
    """
    both = Comparison.of(base.graph, after)
    if both.is_same:
        return base
    if len(both.created) > max(MOST_NEW, len(base.graph.items) * SHARE_NEW):
        return _laid_out_anew(both, timeout, wanted)
    known, stubs = _renumbered(base, both)
    new = set(both.created)
    theirs = [edge for edge, side in both.edges.items() if side is not Side.BEFORE and new.intersection(edge)]
    grown = graft(known, both.graph.items, sizes_of(both.graph), both.created, theirs)
    curves, portals = _with_new_edges(grown, both, stubs)
    added = [curve for edge, curve in curves.items() if edge not in grown.edges]
    farthest = (float(sampled(curve)[:, 0].max()) for curve in added)  # an edge may go around on the right
    width = max(grown.width, *farthest, 0.0)
    placement = Placement(grown.boxes, grown.clusters, curves, width, grown.height)
    return assembled(both.graph, placement, sorted(curves), portals, base.engine, base.note, both)


def _laid_out_anew(both: Comparison, timeout: float, wanted: Callable[[], bool]) -> Layout:
    graph = both.graph
    kept, portals = split_portals(graph.edges)
    placement, engine, note = placed(graph, sizes_of(graph), kept, timeout, wanted)
    told = f"{len(both.created):,} boxes are new: all is laid out anew"
    return assembled(graph, placement, kept, portals, engine, "; ".join(filter(None, (note, told))), both)


def _renumbered(base: Layout, both: Comparison) -> tuple[Placement, list[tuple[int, int]]]:
    """Return the places in `base`, by the numbers of the boxes of both, and its portals."""
    place_of = {item.name: index for index, item in enumerate(both.graph.items)}
    old = [place_of[item.name] for item in both.before.items]
    boxes: list[Box] = [(0.0, 0.0, 0.0, 0.0)] * len(both.graph.items)
    for index, box in zip(old, base.boxes):
        boxes[index] = box
    curves = {(old[source], old[target]): curve for source, target, curve in base.edges}
    clusters = {cluster.path: cluster.box for cluster in base.clusters}
    stubs = [(old[source], old[target]) for source, target in base.portals]
    return Placement(tuple(boxes), clusters, curves, base.width, base.height), stubs


def _with_new_edges(
    grown: Placement, both: Comparison, stubs: list[tuple[int, int]]
) -> tuple[dict[tuple[int, int], Curve], list[tuple[int, int]]]:
    """Return the curves of all edges, and all portals."""
    curves, portals = dict(grown.edges), [*stubs]
    new = [edge for edge, side in both.edges.items() if side is Side.AFTER]
    routes = Routes(grown, both.removed, both.created, new)
    from_far = {source for source, _ in stubs}
    for source, target in new:
        if source in from_far and abs(grown.boxes[target][1] - grown.boxes[source][1]) > FAR:
            portals.append((source, target))
        else:
            curves[source, target] = routes.route(source, target)
    return curves, portals
