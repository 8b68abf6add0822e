"""Changes of modules: members, their order, and plain attributes. Passes set members alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from fxopt.errors import RewriteError
from fxopt.graph.copying import own
from fxopt.graph.index import GraphIndex
from fxopt.recording.changes import SetEntry, Swap

Member = nn.Module | torch.Tensor


@dataclass(frozen=True, eq=False)  # equality would compare tensors
class SetMember(Swap):
    """Register the module, parameter or buffer `new` in place of `old`, at a dotted path; None stands for none there.

    `order` are the names in the table before the run of changes that this one belongs to: the order of members is the
    order of the ``state_dict``, so it comes back with them.
    """

    path: str
    table: str
    """``_modules``, ``_parameters`` or ``_buffers``."""
    old: Member | None = field(repr=False)
    new: Member | None = field(repr=False)
    order: tuple[str, ...] = field(default=(), repr=False)
    persistent: bool = True
    """Of a buffer: whether it belongs to the ``state_dict``."""

    @property
    def parent(self) -> str:
        return self.path.rpartition(".")[0]

    @property
    def is_module(self) -> bool:
        return self.table == "_modules"

    def apply(self, index: GraphIndex) -> None:
        parent, name = index.module_at(self.parent), self.path.rpartition(".")[2]
        if parent is None:
            raise RewriteError(f"{self.path} cannot be changed: its module {self.parent!r} was removed")
        members = getattr(parent, self.table)
        current = members.get(name)
        expected = current is self.old or type(current) is type(self.old) is nn.Module  # a copy has its own containers
        if not expected and not (current is None and self.new is not None):
            kind = "module" if self.is_module else "tensor"
            raise RewriteError(f"the {kind} {self.path} was replaced by something else since; reverse that first")
        new = own(self.new) if isinstance(self.new, nn.Module) else self.new
        if new is None:
            members.pop(name, None)
        else:
            members[name] = new
        if self.table == "_buffers" and not self.persistent:
            passing = parent._non_persistent_buffers_set
            passing.discard(name) if new is None else passing.add(name)
        index.member_changed(self.path, current, new)


def table_of(tensor: torch.Tensor) -> str:
    """Return the table in which a module registers `tensor`: an `nn.Parameter` is one, any other is a buffer."""
    return "_parameters" if isinstance(tensor, nn.Parameter) else "_buffers"


@dataclass(frozen=True)
class ArrangeMembers(Swap):
    """Bring the members of the module at `parent` into the order `new`, which is that of the ``state_dict``.

    An empty order leaves them. As with `ArrangeNodes`, a patch has one at either end.
    """

    parent: str
    table: str
    old: tuple[str, ...] = field(repr=False)
    new: tuple[str, ...] = field(repr=False)

    def apply(self, index: GraphIndex) -> None:
        arranged(getattr(_module(index, self.parent), self.table), self.new)


@dataclass(frozen=True, eq=False)  # equality could compare tensors
class SetAttribute(SetEntry):
    """Set the plain attribute `key` of the module at `path`."""

    path: str
    key: str
    old: Any = field(repr=False)
    new: Any = field(repr=False)

    def entries(self, index: GraphIndex) -> dict[str, Any]:
        return _module(index, self.path).__dict__


@dataclass(frozen=True, eq=False)
class SetItem(SetEntry):
    """Set an item of a dictionary that is an attribute of the module at `path`: its hooks, or ``gm.meta``."""

    path: str
    attribute: str
    key: Any
    old: Any = field(repr=False)
    new: Any = field(repr=False)

    def entries(self, index: GraphIndex) -> dict[Any, Any]:
        entries: dict[Any, Any] = _module(index, self.path).__dict__[self.attribute]
        return entries


def arranged(members: dict[str, Any], order: Iterable[str]) -> None:
    """Bring a table of members into an order; other members come behind."""
    place = {name: i for i, name in enumerate(order)}
    ordered = sorted(members.items(), key=lambda item: place.get(item[0], len(place)))
    members.clear()
    members.update(ordered)


def _module(index: GraphIndex, path: str) -> nn.Module:
    module = index.module_at(path)
    if module is None:
        raise RewriteError(f"{path} was removed, so it cannot be changed back; first reverse the pass that removed it")
    return module
