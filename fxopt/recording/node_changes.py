"""Changes of a graph: its nodes, their calls and metadata, their order and names, and how code is generated.

Passes insert, erase, set calls and metadata; all else is done by transformations written by hand alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from torch.fx import Graph, Node
from torch.fx.node import map_arg

from fxopt.errors import RewriteError
from fxopt.graph.index import GraphIndex
from fxopt.recording.changes import Change, SetEntry, Swap
from fxopt.recording.node_record import Call, NodeRecord, node_named


@dataclass(frozen=True)
class InsertNode(Change):
    node: NodeRecord
    before: str

    def inverse(self) -> EraseNode:
        return EraseNode(self.node, self.before)

    def apply(self, index: GraphIndex) -> None:
        name, call = self.node.name, self.node.call
        if name in index.nodes:
            raise RewriteError(f"{name} is the name of another node by now; first reverse the pass that made that node")
        args, kwargs = call.arguments(index, f"{name} cannot be put into the graph: it reads")
        graph = index.gm.graph
        with graph.inserting_before(self._place(index, args, kwargs)):
            node = _create_node(graph, self.node, args, kwargs)
        node.meta = dict(self.node.meta)
        index.added(node)

    def _place(self, index: GraphIndex, args: Any, kwargs: Any) -> Node:
        if self.before in index.nodes:
            return index.nodes[self.before]
        if not self.before:
            return index.gm.graph._root  # it was the last
        # the node behind it is gone: any place behind its inputs is right
        inputs: list[Node] = []
        map_arg((args, kwargs), inputs.append)
        after: Node = max(inputs) if inputs else next(iter(index.gm.graph.nodes))
        return after.next


@dataclass(frozen=True)
class EraseNode(Change):
    node: NodeRecord
    before: str

    def inverse(self) -> InsertNode:
        return InsertNode(self.node, self.before)

    def apply(self, index: GraphIndex) -> None:
        node = index.nodes.get(self.node.name)
        if node is None:
            return  # dead-code elimination was faster
        if node.users:
            raise RewriteError(
                f"{node} has to stay in the graph: {_names(node.users)} came to use it since; "
                "first reverse the pass that added this use"
            )
        if Call.of(node) != self.node.call:
            raise RewriteError(f"{node} was changed by something else since; reverse that first")
        index.removing(node)
        index.gm.graph.erase_node(node)
        index.gm.graph._graph_namespace._used_names.discard(self.node.name)


@dataclass(frozen=True)
class SetCall(Swap):
    """Let a node call something else, or with other arguments, in its place and under its name."""

    node: str
    old: Call
    new: Call

    def apply(self, index: GraphIndex) -> None:
        node = index.nodes.get(self.node)
        if node is None:
            return
        if Call.of(node) != self.old:
            raise RewriteError(f"{node} was changed by something else since; reverse that first")
        args, kwargs = self.new.arguments(index, f"{self.node} cannot be changed back: it reads")
        index.changing(node)
        if node.op != self.new.op:
            node.op = self.new.op
        if node.target is not self.new.target:
            node.target = self.new.target
        node.args = args
        if kwargs or node.kwargs:
            node.kwargs = kwargs
        index.changed(node)


@dataclass(frozen=True)
class ReplaceInput(Swap):
    """Let `user` read the node `new` in every place of `old`. Beforehand it must not read `new`."""

    user: str
    old: str
    new: str

    def apply(self, index: GraphIndex) -> None:
        user, old = index.nodes.get(self.user), index.nodes.get(self.old)
        if user is not None and old is not None and user in old.users:
            new = node_named(index, self.new, f"{user} cannot be changed back: it reads")
            user.replace_input_with(old, new)
            index.touched()


@dataclass(frozen=True)
class SetMeta(SetEntry):
    """Set an entry of a node's metadata."""

    node: str
    key: Any
    old: Any = field(repr=False)
    new: Any = field(repr=False)

    def entries(self, index: GraphIndex) -> dict[Any, Any] | None:
        node = index.nodes.get(self.node)
        return None if node is None else node.meta


@dataclass(frozen=True)
class SetType(Swap):
    """Set the type annotation of a node."""

    node: str
    old: Any
    new: Any

    def apply(self, index: GraphIndex) -> None:
        node = index.nodes.get(self.node)
        if node is not None:
            node.type = self.new


@dataclass(frozen=True)
class Names:
    """The graph's memory of names."""

    numbers: dict[str, int | None]
    """The numbers that names have come to."""
    taken: frozenset[str] = frozenset()
    """Taken names without a node."""


@dataclass(frozen=True)
class SetNames(Swap):
    """Set the graph's memory of names, on which the names of later nodes depend."""

    old: Names
    new: Names

    def apply(self, index: GraphIndex) -> None:
        names = index.gm.graph._graph_namespace
        for base, number in self.new.numbers.items():
            if number is None:
                names._base_count.pop(base, None)
            else:
                names._base_count[base] = number
        names._used_names.difference_update(self.old.taken - index.nodes.keys())
        names._used_names.update(self.new.taken)


@dataclass(frozen=True, eq=False)
class SetCodegen(Swap):
    """Let the graph generate its code in another way: other inputs and outputs, for example."""

    old: Any = field(repr=False)
    new: Any = field(repr=False)

    def apply(self, index: GraphIndex) -> None:
        index.gm.graph._codegen = self.new

    def __deepcopy__(self, memo: dict[int, Any]) -> SetCodegen:
        return self  # torch warns of copying the tree specs in it, which are constant


@dataclass(frozen=True)
class ArrangeNodes(Swap):
    """Bring nodes into the order `new`; an empty one leaves them where they are.

    Other nodes stay behind the node that they stand behind. A patch has one of these at either end, because an order
    can be restored only when the very nodes are there.
    """

    old: tuple[str, ...] = field(repr=False)
    new: tuple[str, ...] = field(repr=False)

    def apply(self, index: GraphIndex) -> None:
        wanted = [index.nodes[name] for name in self.new if name in index.nodes]
        known = set(wanted)
        last: Node = index.gm.graph._root
        for node in wanted:
            while last.next is not index.gm.graph._root and last.next not in known:
                last = last.next
            if last.next is not node:
                last.append(node)
            last = node
        index.rearranged()


_NUMBER = re.compile(r"_\d+$")
"""At the end of an automatic name."""


def _create_node(graph: Graph, record: NodeRecord, args: Any, kwargs: Any) -> Node:
    names = graph._graph_namespace
    names._used_names.discard(record.name)  # fx holds on to the names of erased nodes
    base = _NUMBER.sub("", record.name)
    count = names._base_count.get(base)
    node = graph.create_node(record.call.op, record.call.target, args, kwargs, record.name, record.type)
    if count is None:  # later automatic names must not depend on nodes that come and go
        names._base_count.pop(base, None)
    else:
        names._base_count[base] = count
    if node.name != record.name:
        node.name = record.name
        names._used_names.add(record.name)
    return node


def _names(nodes: Iterable[Node]) -> str:
    return ", ".join(node.name for node in nodes)
