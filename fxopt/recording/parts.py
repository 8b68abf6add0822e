"""Parts of a patch that do not touch each other: each can be made and undone without the others."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_aggregate

from fxopt.graph.tables import owner_paths
from fxopt.recording.changes import Change
from fxopt.recording.containers import same_value
from fxopt.recording.module_changes import ArrangeMembers, SetMember
from fxopt.recording.node_changes import (
    ArrangeNodes,
    EraseNode,
    InsertNode,
    SetCall,
    SetCodegen,
    SetMeta,
    SetNames,
    SetType,
)
from fxopt.recording.node_record import Call, Ref
from fxopt.recording.patch import Patch

_ALL_ELSE = ("all else",)
"""The subject of changes that are about no node and no member: attributes of a module."""


@dataclass(frozen=True, eq=False)
class Part:
    """Changes that hang together."""

    anchor: str
    """The first node of the old graph that they are about; where they only add, the node that they stand before."""
    nodes: tuple[str, ...]
    """The nodes of the old graph whose work changes or that go, in order."""
    changes: tuple[Change, ...]


def parts_of(patch: Patch, old: GraphModule, new: GraphModule) -> tuple[Part, ...]:
    """Return the parts of a patch that leads from `old` to `new`, in the order of the graph.

    Two changes hang together where they are about one node, module or tensor, or about nodes of which one reads the
    other, before or after. A node that does its work on the result of another node than before belongs to that one
    alone. Changes of the graph module itself, such as notes in its metadata, belong to the first part. A patch that
    moves nodes, or changes how code is generated, is one part.
    """
    of_both = [one for one in patch.changes if not isinstance(one, SetNames | ArrangeMembers)]
    if not of_both:
        return ()
    if any(isinstance(one, ArrangeNodes | SetCodegen) for one in of_both):
        return (_part(patch.changes, old),)
    orders = {(one.parent, one.table): one.old for one in patch.changes if isinstance(one, ArrangeMembers) and one.old}
    groups = _Groups()
    for change in of_both:
        groups.join(_subjects(change))
    readers = {change.node: change for change in of_both if isinstance(change, SetCall) and only_reads_others(change)}
    touched = {subject for subject in groups if isinstance(subject, str)} - readers.keys()
    for graph in (old.graph, new.graph):
        _join_calls(groups, graph, touched)
    for name, change in readers.items():
        groups.join([name, *sorted((change.old.inputs ^ change.new.inputs) & touched)])
    found: dict[Hashable, list[Change]] = {}
    for change in of_both:
        if isinstance(change, SetMember):
            order = orders.get((change.parent, change.table), ())
            change = dataclasses.replace(change, order=order)
        found.setdefault(groups.root(_subjects(change)[0]), []).append(change)
    all_else = found.pop(_ALL_ELSE, [])
    merged: dict[str, list[Change]] = {}
    for changes in found.values():
        merged.setdefault(_part(changes, old).anchor, []).extend(changes)
    places = {node.name: i for i, node in enumerate(old.graph.nodes)}
    if all_else:
        first = min(merged, key=places.__getitem__, default=_part(all_else, old).anchor)
        merged.setdefault(first, []).extend(all_else)
    parts = (_part(changes, old) for changes in merged.values())
    return tuple(sorted(parts, key=lambda part: places[part.anchor]))


def _subjects(change: Change) -> list[Hashable]:
    """Return the nodes by name, and the members as pairs, that a change is about."""
    if isinstance(change, InsertNode | EraseNode):
        return [change.node.name]
    if isinstance(change, SetCall | SetMeta | SetType):
        return [change.node]
    if isinstance(change, SetMember):
        shared: list[Hashable] = [("thing", id(one)) for one in (change.old, change.new) if one is not None]
        return [("member", change.path), *shared]
    return [_ALL_ELSE]


def _join_calls(groups: _Groups, graph: Graph, touched: set[str]) -> None:
    """Join touched nodes with the members they call or read, and with touched nodes that they read."""
    paths = {subject[1] for subject in list(groups) if isinstance(subject, tuple) and subject[0] == "member"}
    for node in graph.nodes:
        if node.op in ("call_module", "get_attr"):
            for path in owner_paths(str(node.target)):
                if path in paths:
                    touched.add(node.name)
                    groups.join([("member", path), node.name])
    for node in graph.nodes:
        if node.name in touched:
            groups.join([node.name, *(one.name for one in node.all_input_nodes if one.name in touched)])


def _part(changes: Iterable[Change], old: GraphModule) -> Part:
    kept = tuple(changes)
    names = {name for change in kept for name in _subjects(change) if isinstance(name, str)}
    paths = {change.path for change in kept if isinstance(change, SetMember)}
    here = [node.name for node in old.graph.nodes if node.name in names or _calls(node, paths)]
    if here:
        return Part(here[0], tuple(here), kept)
    inserted = next((change for change in kept if isinstance(change, InsertNode)), None)
    known = {node.name for node in old.graph.nodes}
    last = next(iter(reversed(old.graph.nodes))).name
    return Part(inserted.before if inserted is not None and inserted.before in known else last, (), kept)


def _calls(node: Node, paths: set[str]) -> bool:
    return node.op in ("call_module", "get_attr") and any(path in paths for path in owner_paths(str(node.target)))


class _Groups:
    """Disjoint sets of subjects (union-find)."""

    def __init__(self) -> None:
        self._above: dict[Hashable, Hashable] = {}

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._above)

    def root(self, one: Hashable) -> Hashable:
        self._above.setdefault(one, one)
        while self._above[one] != one:
            self._above[one] = self._above[self._above[one]]
            one = self._above[one]
        return one

    def join(self, subjects: Iterable[Hashable]) -> None:
        first, *others = map(self.root, subjects)
        for other in others:
            self._above[self.root(other)] = self.root(first)


def only_reads_others(change: SetCall) -> bool:
    """Return whether a node does the same work as before, on other nodes."""

    def without_names(call: Call) -> Any:
        return map_aggregate((call.args, call.kwargs), lambda value: None if isinstance(value, Ref) else value)

    old, new = change.old, change.new
    is_same = (old.op == new.op and old.target is new.target) or same_value(old.target, new.target)
    return is_same and same_value(without_names(old), without_names(new))
