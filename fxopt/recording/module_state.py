"""The state of a module, or of another object: its attributes, and the contents of those that are containers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from fxopt.graph.copying import TABLES
from fxopt.graph.marks import LEDGER
from fxopt.recording.changes import ABSENT
from fxopt.recording.containers import CONTAINERS, refill, same_items, same_value

_EMPTY = ()

_COMPILED = {"_graph", "_code", "_lineno_map", "_prologue_start", "_in_spec", "_out_spec"}
"""The attributes that `GraphModule.recompile` makes of the graph."""


@dataclass(frozen=True, eq=False, slots=True)
class ObjectState:
    """A module, or another object, as it was: its attributes, and the contents of those that are containers."""

    thing: Any
    attributes: dict[str, Any]
    contents: dict[str, Any] = field(repr=False)

    @classmethod
    def of(cls, thing: Any) -> ObjectState:
        attributes = dict(thing.__dict__)
        contents = {
            name: value.copy() if value else _EMPTY  # most are, and copies of empty ones cost
            for name, value in attributes.items()
            if isinstance(value, CONTAINERS)
        }
        return cls(thing, attributes, contents)

    def members(self, table: str) -> dict[str, Any]:
        """Return the members of a module in one of its `TABLES`."""
        return dict(self.contents.get(table, _EMPTY))

    def value(self, name: str) -> Any:
        """Return an attribute as it was; `ABSENT` if there was none, and for a container a copy of its contents."""
        value = self.attributes.get(name, ABSENT)
        if isinstance(value, CONTAINERS):
            return self.contents[name] or type(value)()
        return value

    def has_changed(self) -> bool:
        """Return whether an attribute was set, or the content of one that is a container has changed."""
        current = self.thing.__dict__
        if len(current) != len(self.attributes) or not all(map(current.__contains__, self.attributes)):
            return True
        if any(
            current[name] is not old and not same_value(current[name], old) for name, old in self.attributes.items()
        ):
            return True
        return any(not same_items(old, current[name]) for name, old in self.contents.items())

    def restore(self) -> None:
        """Put everything back. Interrupted, it can be run again."""
        current = self.thing.__dict__
        for name in current.keys() - self.attributes.keys():
            del current[name]
        current.update(self.attributes)
        for name, items in self.contents.items():
            refill(current[name], items)


def own_attributes(state: ObjectState) -> Iterator[str]:
    """Yield the names of the attributes outside the module tree that are independent of the graph."""
    for name in state.attributes:
        if name not in TABLES and name not in _COMPILED and name != "_non_persistent_buffers_set":
            yield name


def tensors_of(state: ObjectState) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the parameters and buffers that were registered in one module, and plain attributes that are tensors."""
    for table in ("_parameters", "_buffers"):
        for name, tensor in state.members(table).items():
            if tensor is not None:
                yield name, tensor
    for name, value in state.attributes.items():
        if isinstance(value, torch.Tensor):
            yield name, value


def children_of(state: ObjectState) -> dict[str, nn.Module | None]:
    """Return the modules that were registered in one, without the ledger."""
    return {name: child for name, child in state.members("_modules").items() if name != LEDGER}
