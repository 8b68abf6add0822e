"""Two states of a graph in one picture: shared nodes have one box, and each other node keeps its slot."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

from fxopt.view.visible import Item, VisibleGraph

GONE = "~"
"""Ends the name of the box of a node that a rewrite replaced under its own name: ``q~`` beside the new ``q``."""


class Side(IntEnum):
    """In which of the two graphs something is."""

    BOTH = 0
    BEFORE = 1
    AFTER = 2


@dataclass(frozen=True)
class Comparison:
    """The boxes and edges of two graphs together.

    `graph` has the boxes of both: those of `before` in their order, and among them the boxes of `after` alone, each at
    its place there. A box that is in both is as in `before`; `retold` has those with another text in `after`, and
    `reread` the edges in both along which other operands come: the text before, and after.

    A node that calls something else in `after`, under the same name, has two boxes, one of each graph: `replaced` has
    the new one by the old one. In `graph`, and in `before` here, the name of the old box ends with `GONE`.
    """

    before: VisibleGraph = field(repr=False)
    after: VisibleGraph = field(repr=False)
    graph: VisibleGraph
    boxes: tuple[Side, ...]
    edges: Mapping[tuple[int, int], Side]
    retold: Mapping[int, Item]
    reread: tuple[tuple[int, int, str, str], ...] = ()
    replaced: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, before: VisibleGraph, after: VisibleGraph) -> Comparison:
        changed = _replaced(before, after)
        before = _renamed(before, changed)
        items, sides = _merged(before, after)
        place = {item.name: index for index, item in enumerate(items)}
        edges: dict[tuple[int, int], Side] = {}
        for of, side in ((before, Side.BEFORE), (after, Side.AFTER)):
            names = [place[item.name] for item in of.items]
            for source, target in of.edges:
                edge = names[source], names[target]
                edges[edge] = Side.BOTH if edge in edges else side
        retold = {
            place[item.name]: item
            for item in after.items
            if sides[place[item.name]] is Side.BOTH and item != items[place[item.name]]
        }
        owner = {name: place[of.items[index].name] for of in (before, after) for name, index in of.owner.items()}
        total, reread = max(before.total, after.total), _reread(before, after, place, edges)
        reads = {(s, t): text for of in (before, after) for s, t, text in _numbered(of, place)}
        reads |= {(s, t): f"{old or '·'}→{new or '·'}" for s, t, old, new in reread}
        told = tuple(sorted((*edge, text) for edge, text in reads.items()))
        graph = VisibleGraph(tuple(items), tuple(sorted(edges)), owner, total, after.hidden, told)
        replaced = {place[name + GONE]: place[name] for name in changed}
        return cls(before, after, graph, tuple(sides), edges, retold, reread, replaced)

    @property
    def is_same(self) -> bool:
        """True where the two look alike."""
        return not self.retold and not self.reread and not any(self.boxes) and not any(self.edges.values())

    @property
    def created(self) -> tuple[int, ...]:
        """The boxes that only `after` has."""
        return tuple(index for index, side in enumerate(self.boxes) if side is Side.AFTER)

    @property
    def removed(self) -> tuple[int, ...]:
        """The boxes that only `before` has."""
        return tuple(index for index, side in enumerate(self.boxes) if side is Side.BEFORE)

    def seen_from(self, side: Side) -> VisibleGraph:
        """Return `graph`, in which a name leads to the box that it has on one side; in both, to the new one."""
        if side is not Side.BEFORE:
            return self.graph
        place = {item.name: index for index, item in enumerate(self.graph.items)}
        own = {name: place[self.before.items[index].name] for name, index in self.before.owner.items()}
        return replace(self.graph, owner={**self.graph.owner, **own})

    @property
    def captions(self) -> tuple[str, str, str]:
        """The boxes shown of `before`, of `after`, and of both together."""
        parts = [f"{len(boxes):,} {word}" for boxes, word in ((self.removed, "gone"), (self.created, "new")) if boxes]
        both = ", ".join([self.after.caption, *parts])
        return self.before.caption, self.after.caption, both


def _replaced(before: VisibleGraph, after: VisibleGraph) -> tuple[str, ...]:
    """Return the nodes that have a box of their own in both graphs, and call something else in the second."""
    new = {item.name: item for item in after.items if not item.path}
    return tuple(
        old.name
        for old in before.items
        if not old.path
        and old.name in new
        and old.kind != "io"
        and (old.kind, old.title) != (new[old.name].kind, new[old.name].title)
    )


def _renamed(graph: VisibleGraph, names: Collection[str]) -> VisibleGraph:
    """Return `graph`, in which the names of these boxes end with `GONE`; the nodes are found by both names."""
    known = frozenset(names)
    items = tuple(replace(item, name=item.name + GONE) if item.name in known else item for item in graph.items)
    owner = {**graph.owner, **{name + GONE: graph.owner[name] for name in known}}
    return replace(graph, items=items, owner=owner)


def _numbered(graph: VisibleGraph, place: Mapping[str, int]) -> list[tuple[int, int, str]]:
    """Return the operands along the edges of `graph`, by the numbers that its boxes have in both."""
    names = [place[item.name] for item in graph.items]
    return [(names[source], names[target], text) for source, target, text in graph.reads]


def _reread(
    before: VisibleGraph, after: VisibleGraph, place: Mapping[str, int], edges: Mapping[tuple[int, int], Side]
) -> tuple[tuple[int, int, str, str], ...]:
    old, new = ({(s, t): text for s, t, text in _numbered(of, place)} for of in (before, after))
    both = sorted(edge for edge in {*old, *new} if edges[edge] is Side.BOTH)
    return tuple((*edge, old.get(edge, ""), new.get(edge, "")) for edge in both if old.get(edge) != new.get(edge))


def _merged(before: VisibleGraph, after: VisibleGraph) -> tuple[list[Item], list[Side]]:
    """Return the boxes of both with the side of each: a new one stands behind the one that it follows in `after`."""
    old = {item.name for item in before.items}
    behind: dict[str, list[Item]] = {}
    last = ""
    for item in after.items:
        if item.name in old:
            last = item.name
        else:
            behind.setdefault(last, []).append(item)
    kept = {item.name for item in after.items}
    items, sides = list(behind.get("", ())), [Side.AFTER] * len(behind.get("", ()))
    for item in before.items:
        new = behind.get(item.name, ())
        items += [item, *new]
        sides += [Side.BOTH if item.name in kept else Side.BEFORE, *[Side.AFTER] * len(new)]
    return items, sides
