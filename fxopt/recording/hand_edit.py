"""The edits that no pass makes, but a transformation written by hand may: what is not a node, a module or a tensor.

Like those of ``changes.py``, they refer to nodes by name and to modules by path, and each has an exact inverse.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from torch import nn
from torch.fx import Node

from fxopt.errors import RewriteError
from fxopt.graph.index import GraphIndex


class Absent(Enum):
    """Stands for an entry that is not there. An enum, because it is the same object after a copy or a pickle."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT


@dataclass(frozen=True)
class ArrangeNodes:
    """Bring nodes into the order `new`; an empty one leaves them where they are.

    What is not named stays behind the node that it stands behind. A patch has one of these at either end, because an
    order can be restored only when the very nodes are there.
    """

    old: tuple[str, ...] = field(repr=False)
    new: tuple[str, ...] = field(repr=False)

    def inverse(self) -> ArrangeNodes:
        return ArrangeNodes(self.new, self.old)

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


@dataclass(frozen=True)
class SetType:
    """Set the type annotation of a node."""

    node: str
    old: Any
    new: Any

    def inverse(self) -> SetType:
        return SetType(self.node, self.new, self.old)

    def apply(self, index: GraphIndex) -> None:
        node = index.nodes.get(self.node)
        if node is not None:
            node.type = self.new


@dataclass(frozen=True)
class SetNames:
    """Set what the graph remembers of names, on which the names of later nodes depend.

    `old` and `new` are the numbers that names have come to; `taken` are names that are taken though no node has them.
    """

    old: dict[str, int | None]
    new: dict[str, int | None]
    freed: frozenset[str] = frozenset()
    taken: frozenset[str] = frozenset()

    def inverse(self) -> SetNames:
        return SetNames(self.new, self.old, self.taken, self.freed)

    def apply(self, index: GraphIndex) -> None:
        names = index.gm.graph._graph_namespace
        for base, number in self.new.items():
            if number is None:
                names._base_count.pop(base, None)
            else:
                names._base_count[base] = number
        names._used_names.difference_update(self.freed - index.nodes.keys())
        names._used_names.update(self.taken)


@dataclass(frozen=True, eq=False)
class SetCodegen:
    """Let the graph generate its code in another way: other inputs and outputs, for example."""

    old: Any = field(repr=False)
    new: Any = field(repr=False)

    def inverse(self) -> SetCodegen:
        return SetCodegen(self.new, self.old)

    def apply(self, index: GraphIndex) -> None:
        index.gm.graph._codegen = self.new

    def __deepcopy__(self, memo: dict[int, Any]) -> SetCodegen:
        return self  # torch warns of copying the tree specs in it, which never change


@dataclass(frozen=True)
class ArrangeMembers:
    """Bring the members of a module into the order `new`, which is that of the ``state_dict``; an empty one leaves it.

    As with `ArrangeNodes`, a patch has one at either end.
    """

    path: str
    table: str
    old: tuple[str, ...] = field(repr=False)
    new: tuple[str, ...] = field(repr=False)

    def inverse(self) -> ArrangeMembers:
        return ArrangeMembers(self.path, self.table, self.new, self.old)

    def apply(self, index: GraphIndex) -> None:
        place = {name: i for i, name in enumerate(self.new)}
        members = getattr(_module(index, self.path), self.table)
        ordered = sorted(members.items(), key=lambda item: place.get(item[0], len(place)))
        members.clear()
        members.update(ordered)


@dataclass(frozen=True, eq=False)  # equality could compare tensors
class SetAttribute:
    """Set a plain attribute of a module."""

    path: str
    name: str
    old: Any = field(repr=False)
    new: Any = field(repr=False)

    def inverse(self) -> SetAttribute:
        return SetAttribute(self.path, self.name, self.new, self.old)

    def apply(self, index: GraphIndex) -> None:
        attributes = _module(index, self.path).__dict__
        _set(attributes, self.name, self.new)
        index.touched()


@dataclass(frozen=True, eq=False)
class SetItem:
    """Set an item of a dictionary: an attribute of the module at `path` (its hooks, ``gm.meta``), or a node's metadata.

    Where `node` is named, `attribute` is not used.
    """

    path: str
    attribute: str
    node: str
    key: Any
    old: Any = field(repr=False)
    new: Any = field(repr=False)

    def inverse(self) -> SetItem:
        return SetItem(self.path, self.attribute, self.node, self.key, self.new, self.old)

    def apply(self, index: GraphIndex) -> None:
        if not self.node:
            _set(_module(index, self.path).__dict__[self.attribute], self.key, self.new)
        elif self.node in index.nodes:
            _set(index.nodes[self.node].meta, self.key, self.new)
        index.touched()


HandEdit = ArrangeNodes | SetType | SetNames | SetCodegen | ArrangeMembers | SetAttribute | SetItem


def _set(items: dict[Any, Any], key: Any, value: Any) -> None:
    if value is ABSENT:
        items.pop(key, None)
    else:
        items[key] = value


def _module(index: GraphIndex, path: str) -> nn.Module:
    module = index.module_at(path)
    if module is None:
        raise RewriteError(f"{path} cannot be changed back: there is no such module any more; reverse what removed it")
    return module
