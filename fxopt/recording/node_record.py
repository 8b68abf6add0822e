"""Nodes as data: a record outlives its node, and can be copied and pickled."""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_aggregate, map_arg

from fxopt.errors import RewriteError
from fxopt.graph.index import GraphIndex


@dataclass(frozen=True)
class Ref:
    """A node named inside recorded arguments."""

    name: str


@dataclass(frozen=True)
class Call:
    """The target and arguments of a node, with a `Ref` in place of every node."""

    op: str
    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @classmethod
    def of(cls, node: Node) -> Call:
        args, kwargs = map_arg(node.args, _ref), map_arg(node.kwargs, _ref)  # type: ignore[arg-type]
        return cls(node.op, node.target, args, kwargs)

    @classmethod
    def on_nodes(cls, op: str, target: Any, args: Any, kwargs: Any, names: Mapping[Node, str] | None = None) -> Call:
        """Return a call on nodes by their names; those in `names` go by these."""
        known = names or {}

        def ref(node: Node) -> Ref:
            return Ref(known.get(node, node.name))

        args, kwargs = map_arg((args, kwargs), ref)  # type: ignore[arg-type]
        return cls(op, target, args, kwargs)

    @property
    def leaves(self) -> list[Any]:
        """The values in the arguments, in order."""
        found: list[Any] = []
        map_aggregate((self.args, self.kwargs), found.append)
        return found

    @property
    def inputs(self) -> set[str]:
        """The names of the nodes that it reads."""
        return {value.name for value in self.leaves if isinstance(value, Ref)}

    def arguments(self, index: GraphIndex, why: str) -> tuple[Any, Any]:
        """Return args and kwargs with a node in place of every `Ref`; where one is gone, `why` begins the message."""

        def named(value: Any) -> Any:
            return node_named(index, value.name, why) if isinstance(value, Ref) else value

        return map_aggregate(self.args, named), map_aggregate(self.kwargs, named)

    def __getstate__(self) -> dict[str, Any]:
        return {key: map_aggregate(value, _by_name) for key, value in self.__dict__.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({key: map_aggregate(value, _from_name) for key, value in state.items()})


@dataclass(frozen=True)
class _NameInTorch:
    """Stands in a pickle for an ATen operator or a memory format, which pickle cannot write."""

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


def can_be_pickled(value: Any) -> bool:
    try:
        pickle.dumps(value, protocol=2)  # which torch.save uses
    except (pickle.PickleError, AttributeError, TypeError, RuntimeError):
        return False  # a class or function that no name leads to
    return True


def node_named(index: GraphIndex, name: str, why: str) -> Node:
    """Return the node of this name; where there is none, the `RewriteError` begins with `why`."""
    node = index.nodes.get(name)
    if node is None:
        raise RewriteError(f"{why} {name}, which has left the graph; first reverse the pass that removed it")
    return node


def _ref(node: Node) -> Ref:
    return Ref(node.name)
