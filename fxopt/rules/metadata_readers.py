"""Readers of the shape, dtype or device of an inner value of a pattern: they read it elsewhere when the value goes.

They read it of an input of the pattern that is known to have the same, or of the result. If they stand before the root,
the result is computed before them, provided that all its inputs are there by then and stay unwritten in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch.fx import Node

from fxopt.graph.conditions import Conditions, Unmet
from fxopt.graph.index import GraphIndex
from fxopt.graph.metadata import reads_metadata_only, with_metadata_of
from fxopt.graph.nodes import info_of, inputs_of
from fxopt.graph.site import NEEDS_SHAPES
from fxopt.rules.replacement import Replacement

Reading = tuple[Node, Node]
"""A reader, and the node that it reads."""


@dataclass(frozen=True, eq=False)
class Redirects:
    """The new sources of metadata readers once a replacement is in place."""

    going: frozenset[Node]
    """The nodes that are unread from then on: the roots, and captured ones."""
    elsewhere: Mapping[Reading, Node] = field(default_factory=dict)
    """The node to read instead: an input of the pattern, or the root whose place the result takes."""
    before: Node | None = None
    """The reader that the result has to be computed before; None if the root's own place will do."""
    stuck: Reading | None = None
    """A reader with no other known source of the same metadata, and the inner value that stays for it."""

    @classmethod
    def of(
        cls, replacement: Replacement, roots: Sequence[Node], captured: Sequence[Node], index: GraphIndex
    ) -> Redirects:
        """Find for each reader of metadata another node to read, and the nodes that go then."""
        kept = _kept(replacement)
        inner = [node for node in captured if node not in roots and node not in kept]
        readings = [(u, n) for n in inner for u in n.users if u not in captured and reads_metadata_only(u, n)]
        outside = [other for node in captured for other in inputs_of(node) if other not in captured]
        found: dict[Reading, Node] = {}
        early: list[Node] = []
        stuck: Reading | None = None
        for reader, node in readings:
            there = with_metadata_of(node, [other for other in outside if other < reader])
            if there is None and len(roots) == 1 and info_of(node) == info_of(roots[0]) is not None:
                there = roots[0]
                early += [reader] if reader < there else []
            if there is None:
                stuck = stuck or (reader, node)
            else:
                found[reader, node] = there
        before = min(early) if early else None
        if before is not None and not _can_stand_before(before, replacement, roots[0], captured, index):
            late = next(pair for pair in found if pair[0] is before)
            found = {pair: there for pair, there in found.items() if there not in roots or pair[0] > there}
            stuck, before = stuck or late, None
        going = _going(roots, captured, kept, found)
        gone = {pair: there for pair, there in found.items() if pair[1] in going}
        return cls(frozenset(going), gone, before if any(r is before for r, _ in gone) else None, stuck)


def redirect_conditions(redirects: Redirects, shared_ok: bool) -> Conditions[None]:
    """Require that metadata readers let every inner value go."""
    if redirects.stuck is None:
        return
    reader, node = redirects.stuck
    yield shared_ok or Unmet(
        f"{reader.name} reads metadata of {node.name}, and nothing that is left is known to have the same",
        remedy="" if info_of(node) is not None else NEEDS_SHAPES,
        actual=f"{node.name} is {info_of(node) or 'of unknown shape'}",
        needed="an input or a result of the same shape, dtype and device, at that place",
    )


def _kept(replacement: Replacement) -> set[Node]:
    """Return the nodes of the graph that the replacement reads or gives."""
    read = {other for node in replacement.new_nodes for other in node.all_input_nodes}
    return {replacement.bound[node] for node in (*read, *replacement.outputs) if node in replacement.bound}


def _going(
    roots: Sequence[Node], captured: Sequence[Node], kept: set[Node], found: Mapping[Reading, Node]
) -> set[Node]:
    going = set(roots)
    for node in sorted(captured, reverse=True):
        if node not in kept and all(user in going or (user, node) in found for user in node.users):
            going.add(node)
    return going


def _can_stand_before(
    place: Node, replacement: Replacement, root: Node, captured: Sequence[Node], index: GraphIndex
) -> bool:
    """Return whether the result is the same when it is computed before the node `place` rather than at the root."""
    needed = _kept(replacement)
    read = needed.union(*map(inputs_of, captured))
    return all(node < place for node in needed) and not any(index.writes_between(place, root, node) for node in read)
