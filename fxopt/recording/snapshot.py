"""What a graph module is at one moment: enough to put it back, and to tell what someone has changed since.

Nothing is copied but lists and dictionaries of references, so taking one costs a few microseconds a node and no memory
for weights. Numbers can therefore be put back only where they were replaced; that they were written over is noticed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from operator import eq, is_
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.fx import Graph, GraphModule, Node

from fxopt.graph.marks import LEDGER
from fxopt.recording.changes import ABSENT
from fxopt.recording.node_record import Ref
from fxopt.recording.tensor_snapshot import TensorSnapshot

CONTAINERS = (dict, list, set)
_EMPTY = ()
_NO_META: dict[str, Any] = {}

TABLES = ("_modules", "_parameters", "_buffers")

_COMPILED = {"_graph", "_code", "_lineno_map", "_prologue_start", "_in_spec", "_out_spec"}
"""What `GraphModule.recompile` makes of the graph."""


class NodeState(NamedTuple):
    """A node as it was. Arguments are kept as they are: torch.fx replaces them, and never changes them."""

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
    """A graph as it was, and what it remembers of names."""

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
        """Make the very same node objects what they were, in the place where they were, whatever became of them."""
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
                object.__setattr__(node, name, value)  # not observed by hooks that record edits
            node.type, node.meta = state.type, dict(state.meta)
            root.prepend(node)
            graph._find_nodes_lookup_table.insert(node)
        for state in self.nodes:
            state.node.args, state.node.kwargs = state.args, state.kwargs
        for state in self.nodes:
            state.node.users.clear()
            state.node.users.update(dict.fromkeys(state.users))
        graph._len = len(self.nodes)
        graph._codegen, graph._insert = self.codegen, self.insert
        names = graph._graph_namespace
        names._used_names, names._base_count, names._obj_to_name = (
            set(self.used_names),
            dict(self.base_count),
            dict(self.objects),
        )


@dataclass(frozen=True, eq=False, slots=True)
class ModuleState:
    """A module as it was: its attributes, and what was in those that are containers."""

    module: nn.Module
    attributes: dict[str, Any]
    contents: dict[str, Any] = field(repr=False)

    @classmethod
    def of(cls, module: nn.Module) -> ModuleState:
        attributes = dict(module.__dict__)
        contents = {
            name: value.copy() if value else _EMPTY  # most are, and copies of nothing cost
            for name, value in attributes.items()
            if isinstance(value, CONTAINERS)
        }
        return cls(module, attributes, contents)

    def members(self, table: str) -> dict[str, Any]:
        return dict(self.contents.get(table, _EMPTY))

    def value(self, name: str) -> Any:
        """An attribute as it was; `ABSENT` where there was none, and of a container a copy of what was in it."""
        value = self.attributes.get(name, ABSENT)
        if isinstance(value, CONTAINERS):
            return self.contents[name] or type(value)()
        return value

    def has_changed(self) -> bool:
        """Whether an attribute was set, or something put into or taken out of one that is a container."""
        current = self.module.__dict__
        if len(current) != len(self.attributes) or not all(map(current.__contains__, self.attributes)):
            return True
        if any(
            current[name] is not old and not same_value(current[name], old) for name, old in self.attributes.items()
        ):
            return True
        return any(not same_items(old, current[name]) for name, old in self.contents.items())

    def restore(self) -> None:
        current = self.module.__dict__
        for name in current.keys() - self.attributes.keys():
            del current[name]
        current.update(self.attributes)
        for name, items in self.contents.items():
            refill(current[name], items)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A graph module as it was; see `Snapshot.of`."""

    gm: GraphModule
    graph: GraphState
    modules: dict[int, ModuleState]
    """By the identity of the module, each of which is held."""
    tensors: dict[int, TensorSnapshot]
    nested: tuple[GraphState, ...]
    """The graphs of graph modules inside."""

    @classmethod
    def of(cls, gm: GraphModule, copy_tensors: bool = False, with_tensors: bool = True) -> Snapshot:
        """Of `gm` as it is now.

        Args:
            with_tensors: whether to note the state of tensors, which costs a few microseconds each. Without, it cannot
                be put back.
            copy_tensors: whether to copy the numbers of all parameters and buffers too, so that they can be put back
                where they are written over.
        """
        modules: dict[int, ModuleState] = {}
        tensors: dict[int, TensorSnapshot] = {}
        nested: list[GraphState] = []
        for path, module in gm.named_modules():
            modules[id(module)] = state = ModuleState.of(module)
            if module is not gm and isinstance(module, GraphModule):
                nested.append(GraphState.of(module.graph))
            for name, tensor in tensors_of(state) if with_tensors else ():
                if id(tensor) not in tensors:
                    tensors[id(tensor)] = TensorSnapshot.of(f"{path}.{name}" if path else name, tensor, copy_tensors)
        return cls(gm, GraphState.of(gm.graph), modules, tensors, tuple(nested))

    def restore(self) -> list[str]:
        """Put everything back.

        Returns:
            the paths of tensors whose numbers were written over and not copied: those cannot be put back.
        """
        lost = [state.path for state in self.tensors.values() if not state.restore()]
        code = self.gm._code
        for module in self.modules.values():
            module.restore()
        for graph in (self.graph, *self.nested):
            graph.restore()
        self.graph.graph.owning_module = self.gm
        if self.gm._code is not code:
            self.gm.recompile()
        return lost

    def changed_graph_inside(self) -> str:
        """The class of a graph module inside whose graph was changed; empty if there is none."""
        for state in self.nested:
            now = GraphState.of(state.graph)
            same = len(now.nodes) == len(state.nodes) and all(map(_is_same, now.nodes, state.nodes))
            if not same:
                return type(state.graph.owning_module).__name__
        return ""


def own_attributes(state: ModuleState) -> Iterator[str]:
    """The names of the attributes that are neither members of the module tree nor made from the graph."""
    for name in state.attributes:
        if name not in TABLES and name not in _COMPILED and name != "_non_persistent_buffers_set":
            yield name


def tensors_of(state: ModuleState) -> Iterator[tuple[str, torch.Tensor]]:
    """The parameters and buffers that were registered in one module, and plain attributes that are tensors."""
    for table in ("_parameters", "_buffers"):
        for name, tensor in state.members(table).items():
            if tensor is not None:
                yield name, tensor
    for name, value in state.attributes.items():
        if isinstance(value, torch.Tensor):
            yield name, value


def children_of(state: ModuleState) -> dict[str, nn.Module | None]:
    """The modules that were registered in one, without the ledger."""
    return {name: child for name, child in state.members("_modules").items() if name != LEDGER}


def same_value(a: Any, b: Any) -> bool:
    """Whether two values are one for all purposes: 1 is not True, 0.0 is not -0.0, and other objects are themselves."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(same_value, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same_value(a[key], b[key]) for key in a)
    if isinstance(a, slice):
        return same_value((a.start, a.stop, a.step), (b.start, b.stop, b.step))
    plain = (str, int, float, complex, bool, bytes, Ref, torch.dtype, torch.device, torch.memory_format)
    return isinstance(a, plain) and repr(a) == repr(b)


def same_items(a: Any, b: Any) -> bool:
    """Whether two containers hold the same things in the same order."""
    if not a or not b:
        return not a and not b
    if len(a) != len(b) or isinstance(a, set):
        return bool(a == b)
    if isinstance(a, dict):
        return all(map(is_, a.values(), b.values())) and all(map(eq, a, b))
    return all(map(is_, a, b))


def _is_same(a: NodeState, b: NodeState) -> bool:
    return a.node is b.node and a.args is b.args and a.kwargs is b.kwargs and a.target is b.target and a.name == b.name


def refill(container: Any, items: Any) -> None:
    """Let a list, dictionary or set hold `items` and nothing else, in their order."""
    if same_items(container, items):
        return
    container.clear()
    container.extend(items) if isinstance(container, list) else container.update(items)
