"""The patch of primitive changes that leads from one snapshot of a graph module to another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from fxopt.graph.copying import TABLES
from fxopt.recording.changes import ABSENT, Change
from fxopt.recording.containers import same_items, same_value
from fxopt.recording.graph_state import GraphState, NodeState
from fxopt.recording.module_changes import ArrangeMembers, SetAttribute, SetItem, SetMember, table_of
from fxopt.recording.module_state import ObjectState, children_of, own_attributes
from fxopt.recording.node_changes import (
    ArrangeNodes,
    EraseNode,
    InsertNode,
    Names,
    SetCall,
    SetCodegen,
    SetMeta,
    SetNames,
    SetType,
)
from fxopt.recording.node_record import Call, NodeRecord
from fxopt.recording.patch import Patch
from fxopt.recording.snapshot import Snapshot


def diff_snapshots(before: Snapshot, after: Snapshot) -> Patch:
    """Return the changes that lead from `before` to `after`, of one graph module or of two.

    Nodes are compared by name, and modules and tensors by identity. The values of metadata and of attributes are
    compared by identity too: a list in ``node.meta`` that something was appended to counts as the same.
    """
    modules = _Modules(before, after)
    modules.compare("", before.modules[id(before.gm)], after.modules[id(after.gm)])
    nodes = list(_nodes(before.graph, after.graph))
    return Patch((*modules.first, *modules.added, *nodes, *modules.removed, *modules.last))


# ---- nodes


def _nodes(old: GraphState, new: GraphState) -> Iterator[Change]:
    stays = [state.name for state in new.nodes if state.name in old.by_name]
    moved = stays != [state.name for state in old.nodes if state.name in new.by_name]
    if moved:
        yield ArrangeNodes(tuple(old.by_name), ())
    for state, before in _with_next(new.nodes, old.by_name):
        if state.name not in old.by_name:
            yield InsertNode(_record(state, new), before)
    renamed = any(old.names.get(node, name) != name for node, name in new.names.items())
    is_same_graph = old.graph is new.graph and not renamed
    for name in stays:
        yield from _changes(old.by_name[name], new.by_name[name], old, new, is_same_graph)
    for state, before in reversed(list(_with_next(old.nodes, new.by_name))):
        if state.name not in new.by_name:
            yield EraseNode(_record(state, old), before)
    if moved:
        yield ArrangeNodes((), tuple(new.by_name))
    if old.codegen is not new.codegen:
        yield SetCodegen(old.codegen, new.codegen)
    yield from _names(old, new)


def _with_next(nodes: tuple[NodeState, ...], stays: dict[str, NodeState]) -> Iterator[tuple[NodeState, str]]:
    """Yield each node with the name of the next one that stays; that of the root, which is empty, at the end."""
    names = [""]
    for state in reversed(nodes):
        names.append(state.name if state.name in stays else names[-1])
    return zip(nodes, names[-2::-1])


def _changes(a: NodeState, b: NodeState, old: GraphState, new: GraphState, is_same_graph: bool) -> Iterator[Change]:
    untouched = (
        is_same_graph and a.node is b.node and a.args is b.args and a.kwargs is b.kwargs
        and a.target is b.target and a.op == b.op
    )  # fmt: skip
    if not untouched:
        was, now = _call(a, old), _call(b, new)
        if not same_value(vars(was), vars(now)):
            yield SetCall(a.name, was, now)
    if a.type is not b.type and a.type != b.type:
        yield SetType(a.name, a.type, b.type)
    if not same_items(a.meta, b.meta):
        yield from _meta(a, b)


def _meta(a: NodeState, b: NodeState) -> Iterator[Change]:
    for key in {**a.meta, **b.meta}:
        was, now = a.meta.get(key, ABSENT), b.meta.get(key, ABSENT)
        if not same_value(was, now):
            yield SetMeta(a.name, key, was, now)


def _names(old: GraphState, new: GraphState) -> Iterator[Change]:
    """Yield the changes that keep automatic names of later nodes the same after doing and undoing."""
    bases = {
        base for base in old.base_count.keys() | new.base_count.keys()
        if old.base_count.get(base) != new.base_count.get(base)
    }  # fmt: skip
    nodes = old.by_name.keys() | new.by_name.keys()
    freed, taken = old.used_names - new.used_names - nodes, new.used_names - old.used_names - nodes
    if bases or freed or taken:
        yield SetNames(
            Names({base: old.base_count.get(base) for base in bases}, freed),
            Names({base: new.base_count.get(base) for base in bases}, taken),
        )


def _record(state: NodeState, graph: GraphState) -> NodeRecord:
    return NodeRecord(state.name, _call(state, graph), state.type, state.meta)


def _call(state: NodeState, graph: GraphState) -> Call:
    """Return the call with the names that the inputs had at the time."""
    return Call.on_nodes(state.op, state.target, state.args, state.kwargs, graph.names)


# ---- modules


class _Modules:
    """Compares module trees. Additions go before the changes of nodes, and removals after them."""

    def __init__(self, before: Snapshot, after: Snapshot) -> None:
        self.before, self.after = before, after
        self.first: list[Change] = []
        self.added: list[Change] = []
        self.removed: list[Change] = []
        self.last: list[Change] = []
        self._seen: set[tuple[int, int]] = set()

    def compare(self, path: str, old: ObjectState, new: ObjectState) -> None:
        """Compare two modules that belong to the graph module: itself, or a container of torch.fx."""
        if (id(old), id(new)) in self._seen:
            return
        self._seen.add((id(old), id(new)))
        was, now = children_of(old), children_of(new)
        for name in {**was, **now}:
            a, b = was.get(name), now.get(name)
            if type(a) is nn.Module and type(b) is nn.Module:
                self.compare(_join(path, name), self.before.modules[id(a)], self.after.modules[id(b)])
            elif a is not b:
                (self.added if b is not None else self.removed).append(SetMember(_join(path, name), "_modules", a, b))
        self._tensors(path, old, new)
        self._orders(path, old, new)
        self._attributes(path, old, new)

    def _tensors(self, path: str, old: ObjectState, new: ObjectState) -> None:
        was, now = _registered(old), _registered(new)
        for name in {**was, **now}:
            a, b = was.get(name, _NOTHING), now.get(name, _NOTHING)
            if a[0] is b[0] and a[1] == b[1]:
                continue
            self.added += _set_tensor(_join(path, name), a, b)

    def _orders(self, path: str, old: ObjectState, new: ObjectState) -> None:
        for table in TABLES:
            was = tuple(name for name in old.members(table))
            now = tuple(name for name in new.members(table))
            if was != now:
                self.first.append(ArrangeMembers(path, table, was, ()))
                self.last.append(ArrangeMembers(path, table, (), now))

    def _attributes(self, path: str, old: ObjectState, new: ObjectState) -> None:
        for name in {**dict.fromkeys(own_attributes(old)), **dict.fromkeys(own_attributes(new))}:
            a, b = old.value(name), new.value(name)
            if isinstance(a, dict) and isinstance(b, dict):
                for key in {**a, **b}:
                    was, now = a.get(key, ABSENT), b.get(key, ABSENT)
                    if not same_value(was, now):
                        self.last.append(SetItem(path, name, key, was, now))
            elif not same_value(a, b) and not (_is_container(a) and same_items(a, b)):
                self.last.append(SetAttribute(path, name, a, b))


_Registered = tuple[torch.Tensor | None, bool]
"""A parameter or buffer, and whether it belongs to the ``state_dict``."""

_NOTHING: _Registered = (None, True)


def _set_tensor(path: str, old: _Registered, new: _Registered) -> Iterator[Change]:
    (a, persistent), (b, stays) = old, new
    if a is not None and b is not None and (table_of(a), persistent) == (table_of(b), stays):
        yield SetMember(path, table_of(a), a, b, persistent=persistent)
        return
    if a is not None:
        yield SetMember(path, table_of(a), a, None, persistent=persistent)
    if b is not None:
        yield SetMember(path, table_of(b), None, b, persistent=stays)


def _registered(state: ObjectState) -> dict[str, _Registered]:
    passing = state.value("_non_persistent_buffers_set")
    return {
        name: (tensor, name not in passing)
        for table in ("_parameters", "_buffers")
        for name, tensor in state.members(table).items()
        if tensor is not None
    }


def _is_container(value: Any) -> bool:
    return isinstance(value, list | set)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
