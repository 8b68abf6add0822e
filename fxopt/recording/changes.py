"""The primitive edits of a graph module, each with its exact inverse, and the patch they make up.

Edits refer to nodes by name and to modules by reference. So they outlive node objects, and what a
rewrite replaced comes back as the very same module with the very same tensors. An edit checks, before it
acts, that what it is about to change is still as it knew it: a graph that something else has changed in the
meantime is never quietly damaged.
"""

from __future__ import annotations

import copy
import operator
import pickle
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.fx import Graph, Node
from torch.fx.node import map_aggregate, map_arg

from fxopt.errors import RewriteError
from fxopt.graph.copying import own
from fxopt.graph.index import GraphIndex
from fxopt.graph.marks import MARKS
from fxopt.recording.hand_edit import ArrangeMembers, HandEdit


@dataclass(frozen=True)
class Ref:
    """A node named inside recorded arguments."""

    name: str


@dataclass(frozen=True)
class Call:
    """What a node calls and with what, with a `Ref` in place of every node."""

    op: str
    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @classmethod
    def of(cls, node: Node) -> Call:
        return cls(node.op, node.target, _to_refs(node.args), _to_refs(node.kwargs))

    def arguments(self, index: GraphIndex, why: str) -> tuple[Any, Any]:
        """The args and kwargs with a node in place of every `Ref`; where one is gone, `why` begins the message."""

        def named(value: Any) -> Any:
            return _node(index, value.name, why) if isinstance(value, Ref) else value

        return map_aggregate(self.args, named), map_aggregate(self.kwargs, named)

    def __getstate__(self) -> dict[str, Any]:
        return {key: map_aggregate(value, _by_name) for key, value in self.__dict__.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({key: map_aggregate(value, _from_name) for key, value in state.items()})


@dataclass(frozen=True)
class _NameInTorch:
    """What pickle cannot write: an ATen operator, or a memory format."""

    path: str


def _by_name(value: Any) -> Any:
    if isinstance(value, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        return _NameInTorch(f"ops.{value}")
    return _NameInTorch(str(value).removeprefix("torch.")) if isinstance(value, torch.memory_format) else value


def _from_name(value: Any) -> Any:
    return operator.attrgetter(value.path)(torch) if isinstance(value, _NameInTorch) else value


@dataclass(frozen=True)
class NodeRecord:
    """All that is needed to build a node again, under its own name."""

    name: str
    call: Call
    type: Any = None
    meta: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, node: Node) -> NodeRecord:
        return cls(node.name, Call.of(node), node.type, dict(node.meta))

    def __getstate__(self) -> dict[str, Any]:
        meta = {key: value for key, value in self.meta.items() if can_be_pickled(value)}
        return {**self.__dict__, "meta": meta, "type": self.type if can_be_pickled(self.type) else None}

    def __deepcopy__(self, memo: dict[int, Any]) -> NodeRecord:
        # metadata is shared, as in torch's copies of nodes: fake tensors in it cannot be copied
        return NodeRecord(self.name, copy.deepcopy(self.call, memo), self.type, dict(self.meta))


@dataclass(frozen=True)
class InsertNode:
    node: NodeRecord
    before: str

    def inverse(self) -> EraseNode:
        return EraseNode(self.node, self.before)

    def apply(self, index: GraphIndex) -> None:
        name, call = self.node.name, self.node.call
        if name in index.nodes:
            raise RewriteError(
                f"{name} cannot be put into the graph: a node made since has the same name; reverse what made it first"
            )
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
        # what stood behind it is gone: any place behind its inputs is right
        inputs: list[Node] = []
        map_arg((args, kwargs), inputs.append)
        after: Node = max(inputs) if inputs else next(iter(index.gm.graph.nodes))
        return after.next


@dataclass(frozen=True)
class EraseNode:
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
                f"{node} cannot be taken out of the graph: {_names(node.users)} came to use it since; "
                "reverse what added that first"
            )
        if Call.of(node) != self.node.call:
            raise RewriteError(f"{node} was changed by something else since; reverse that first")
        index.removing(node)
        index.gm.graph.erase_node(node)
        index.gm.graph._graph_namespace._used_names.discard(self.node.name)


@dataclass(frozen=True)
class SetCall:
    """Let a node call something else, or with other arguments, in its place and under its name."""

    node: str
    old: Call
    new: Call

    def inverse(self) -> SetCall:
        return SetCall(self.node, self.new, self.old)

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
class ReplaceInput:
    """Let `user` read `new` wherever it reads `old`. It must not read `new` beforehand."""

    user: str
    old: str
    new: str

    def inverse(self) -> ReplaceInput:
        return ReplaceInput(self.user, self.new, self.old)

    def apply(self, index: GraphIndex) -> None:
        user, old = index.nodes.get(self.user), index.nodes.get(self.old)
        if user is not None and old is not None and user in old.users:
            new = _node(index, self.new, f"{user} cannot be changed back: it reads")
            user.replace_input_with(old, new)
            index.touched()


@dataclass(frozen=True)
class SetMeta:
    """Set one entry of a node's metadata; None stands for no entry."""

    node: str
    key: str
    old: Any
    new: Any

    def inverse(self) -> SetMeta:
        return SetMeta(self.node, self.key, self.new, self.old)

    def apply(self, index: GraphIndex) -> None:
        node = index.nodes.get(self.node)
        if node is not None and self.new is None:
            node.meta.pop(self.key, None)
        elif node is not None:
            node.meta[self.key] = self.new


@dataclass(frozen=True, eq=False)  # equality would compare modules
class SetModule:
    """Put `new` where `old` is registered, at a dotted path; None stands for nothing there.

    `order` are the names in the parent before the run of edits that this one belongs to: the order of
    ``_modules`` is the order of the ``state_dict``, so it comes back with the modules.
    """

    path: str
    old: nn.Module | None = field(repr=False)
    new: nn.Module | None = field(repr=False)
    order: tuple[str, ...] = field(repr=False)

    def inverse(self) -> SetModule:
        return SetModule(self.path, self.new, self.old, self.order)

    @property
    def parent(self) -> str:
        return self.path.rpartition(".")[0]

    @property
    def table(self) -> str:
        return "_modules"

    def apply(self, index: GraphIndex) -> None:
        parent, name = index.module_at(self.parent), self.path.rpartition(".")[2]
        if parent is None:
            raise RewriteError(f"{self.path} cannot be changed: there is no module {self.parent!r} any more")
        current = parent._modules.get(name)
        expected = current is self.old or type(current) is type(self.old) is nn.Module  # a copy has its own containers
        if not expected and not (current is None and self.new is not None):
            raise RewriteError(f"the module {self.path} was replaced by something else since; reverse that first")
        new = None if self.new is None else own(self.new)
        if new is None:
            parent._modules.pop(name, None)
        else:
            parent._modules[name] = new
        index.module_changed(self.path, current, new)


@dataclass(frozen=True, eq=False)  # equality would compare tensors
class SetTensor:
    """Register the parameter or buffer `new` where `old` is, at a dotted path; None stands for nothing there.

    An `nn.Parameter` goes to the parameters of the module it lies in, any other tensor to the buffers.
    `order` are the names of those before the run of edits that this one belongs to, as in `SetModule`.
    """

    path: str
    old: torch.Tensor | None = field(repr=False)
    new: torch.Tensor | None = field(repr=False)
    order: tuple[str, ...] = field(repr=False)
    persistent: bool = True
    """Of a buffer: whether it belongs to the ``state_dict``."""

    def inverse(self) -> SetTensor:
        return SetTensor(self.path, self.new, self.old, self.order, self.persistent)

    @property
    def parent(self) -> str:
        return self.path.rpartition(".")[0]

    @property
    def table(self) -> str:
        either = self.new if self.new is not None else self.old
        return "_parameters" if isinstance(either, nn.Parameter) else "_buffers"

    def apply(self, index: GraphIndex) -> None:
        parent, name = index.module_at(self.parent), self.path.rpartition(".")[2]
        if parent is None:
            raise RewriteError(f"{self.path} cannot be changed: there is no module {self.parent!r} any more")
        table = getattr(parent, self.table)
        current = table.get(name)
        if current is not self.old and not (current is None and self.new is not None):
            raise RewriteError(f"the tensor {self.path} was replaced by something else since; reverse that first")
        if self.new is None:
            table.pop(name, None)
            parent._non_persistent_buffers_set.discard(name)
        else:
            table[name] = self.new
            if self.table == "_buffers" and not self.persistent:
                parent._non_persistent_buffers_set.add(name)
        index.tensor_changed(self.path, self.old, self.new)


Edit = InsertNode | EraseNode | SetCall | ReplaceInput | SetMeta | SetModule | SetTensor | HandEdit


@dataclass(frozen=True, eq=False)  # equality would compare modules
class Patch:
    """The edits of one site. Their inverses in reverse order undo it."""

    edits: tuple[Edit, ...]

    @property
    def created(self) -> tuple[str, ...]:
        """The nodes that the patch made."""
        return tuple(edit.node.name for edit in self.edits if isinstance(edit, InsertNode))

    @property
    def removed(self) -> tuple[str, ...]:
        """The nodes that the patch took out."""
        return tuple(edit.node.name for edit in self.edits if isinstance(edit, EraseNode))

    @property
    def changed(self) -> tuple[str, ...]:
        """The nodes that stayed, but call something else or another module now."""
        marked = (edit.node for edit in self.edits if isinstance(edit, SetMeta) and edit.key == MARKS)
        return tuple(dict.fromkeys(name for name in marked if name not in self.created))

    @property
    def kept(self) -> tuple[nn.Module, ...]:
        """The modules that are kept for the way back."""
        return tuple(e.old for e in self.edits if isinstance(e, SetModule) and e.old is not None)


_OF_A_MODULE = (SetModule, SetTensor, ArrangeMembers)
"""The edits of what is registered in a module, where there is an order to keep."""


def run(index: GraphIndex, edits: Iterable[Edit]) -> None:
    """Apply `edits` one after the other; if one fails, take all of them back.

    Raises:
        RewriteError: the graph is not as the edits knew it. It is left as it was.
    """
    before: dict[tuple[str, str], tuple[str, ...]] = {}
    after: dict[tuple[str, str], tuple[str, ...]] = {}
    done: list[Edit] = []
    try:
        for edit in edits:
            if isinstance(edit, _OF_A_MODULE):
                path = edit.path if isinstance(edit, ArrangeMembers) else edit.parent
                place = (path, edit.table)
                if place not in before:
                    parent = index.module_at(path)
                    before[place] = tuple(getattr(parent, edit.table)) if parent is not None else ()
                if not isinstance(edit, ArrangeMembers) and edit.order:
                    after[place] = edit.order
                elif place in after:  # an edit by hand starts from the order that the edits before it come to
                    _reorder(index, {place: after.pop(place)})
            edit.apply(index)
            done.append(edit)
    except RewriteError:
        for edit in reversed(done):
            edit.inverse().apply(index)
        _reorder(index, before)
        raise
    _reorder(index, after)


def undo(index: GraphIndex, patches: list[Patch]) -> None:
    """Undo `patches`, the last one first; if one of them cannot be undone, undo none."""
    run(index, (edit.inverse() for patch in reversed(patches) for edit in reversed(patch.edits)))


def _reorder(index: GraphIndex, orders: dict[tuple[str, str], tuple[str, ...]]) -> None:
    for (path, table), order in orders.items():
        parent = index.module_at(path)
        if parent is not None:
            place = {name: i for i, name in enumerate(order)}
            members = getattr(parent, table)
            ordered = sorted(members.items(), key=lambda item: place.get(item[0], len(place)))
            members.clear()
            members.update(ordered)


_NUMBER = re.compile(r"_\d+$")
"""At the end of an automatic name."""


def _create_node(graph: Graph, record: NodeRecord, args: Any, kwargs: Any) -> Node:
    names = graph._graph_namespace
    names._used_names.discard(record.name)  # fx holds on to the names of erased nodes
    base = _NUMBER.sub("", record.name)
    count = names._base_count.get(base)
    node = graph.create_node(record.call.op, record.call.target, args, kwargs, record.name, record.type)
    if count is None:  # later automatic names must not depend on what was done and undone
        names._base_count.pop(base, None)
    else:
        names._base_count[base] = count
    if node.name != record.name:
        node.name = record.name
        names._used_names.add(record.name)
    return node


def can_be_pickled(value: Any) -> bool:
    try:
        pickle.dumps(value, protocol=2)  # which torch.save uses
    except (pickle.PicklingError, AttributeError, TypeError, RuntimeError):
        return False  # a class or function without a name that leads to it
    return True


def _node(index: GraphIndex, name: str, why: str) -> Node:
    node = index.nodes.get(name)
    if node is None:
        raise RewriteError(f"{why} {name}, which is no longer in the graph; reverse what removed it first")
    return node


def _names(nodes: Iterable[Node]) -> str:
    return ", ".join(node.name for node in nodes)


def _to_refs(value: Any) -> Any:
    return map_arg(value, lambda node: Ref(node.name))  # type: ignore[arg-type,return-value]
