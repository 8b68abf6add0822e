"""The state of a graph: its nodes as they were, and its memory of names."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from torch.fx import Graph, Node

_NO_META: dict[str, Any] = {}


class NodeState(NamedTuple):
    """A node as it was. Arguments are kept as they are: torch.fx only replaces them."""

    node: Node
    name: str
    op: str
    target: Any
    args: Any
    kwargs: Any
    type: Any
    meta: dict[str, Any]
    users: tuple[Node, ...]


def _states_of(graph: Graph) -> tuple[NodeState, ...]:
    return tuple([
        NodeState(
            node,
            node.name,
            node.op,
            node.target,
            node._args,
            node._kwargs,
            node.type,
            node.meta.copy() if node.meta else _NO_META,
            tuple(node.users),
        )
        for node in graph.nodes
    ])  # fmt: skip


@dataclass(frozen=True, eq=False)
class GraphState:
    """A graph as it was, and its memory of names."""

    graph: Graph
    nodes: tuple[NodeState, ...]
    codegen: Any
    used_names: frozenset[str]
    base_count: dict[str, int]
    objects: dict[object, str]
    insert: Any

    @classmethod
    def of(cls, graph: Graph) -> GraphState:
        names = graph._graph_namespace
        return cls(
            graph,
            _states_of(graph),
            graph._codegen,
            frozenset(names._used_names),
            dict(names._base_count),
            dict(names._obj_to_name),
            graph._insert,
        )

    @cached_property
    def names(self) -> dict[Node, str]:
        return {state.node: state.name for state in self.nodes}

    @cached_property
    def by_name(self) -> dict[str, NodeState]:
        return {state.name: state for state in self.nodes}

    def restore(self) -> None:
        """Restore the very same node objects in the place where they were, after any change."""
        graph = self.graph
        for node in [*graph.nodes, *self.names]:
            node.args, node.kwargs = (), {}
        root = graph._root
        root._prev = root._next = root
        graph._find_nodes_lookup_table = type(graph._find_nodes_lookup_table)()
        for state in self.nodes:
            node = state.node
            node._prev = node._next = node
            node._erased = False
            for name, value in (("name", state.name), ("op", state.op), ("target", state.target), ("graph", graph)):
                object.__setattr__(node, name, value)  # unobserved by hooks that record edits
            node.type, node.meta = state.type, dict(state.meta)
            root.prepend(node)
            graph._find_nodes_lookup_table.insert(node)
        for state in self.nodes:
            state.node.args, state.node.kwargs = state.args, state.kwargs
        for state in self.nodes:  # at once: torch breaks a node that its input, interrupted, does not know as a user
            object.__setattr__(state.node, "users", dict.fromkeys(state.users))
        graph._len = len(self.nodes)
        graph._codegen, graph._insert = self.codegen, self.insert
        names = graph._graph_namespace
        names._used_names, names._obj_to_name = set(self.used_names), dict(self.objects)
        names._base_count.clear()  # kept as the object: torch 2.6 has a dictionary with a default
        names._base_count.update(self.base_count)

    def is_as_it_was(self) -> bool:
        """Check that the graph has the same nodes, with the same calls and names."""
        now = _states_of(self.graph)
        return len(now) == len(self.nodes) and all(map(_is_same, now, self.nodes))


def _is_same(a: NodeState, b: NodeState) -> bool:
    return a.node is b.node and a.args is b.args and a.kwargs is b.kwargs and a.target is b.target and a.name == b.name
