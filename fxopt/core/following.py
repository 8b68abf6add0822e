"""Apply `.to()`, `.half()`, `.train()` of a graph module to the modules and tensors retained for reversal.

After ``gm.half()`` reversal leads to the result of ``.half()`` of the pristine graph, and so for ``.to``, ``.cuda``,
``.train`` and ``.eval``. The retained modules may be part of the user's model, so copies are changed instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from operator import is_
from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule

from fxopt.graph.copying import shallow_copy
from fxopt.recording.changes import Change
from fxopt.recording.module_changes import SetAttribute, SetMember
from fxopt.recording.patch import Patch


class Follower:
    """Changes the retained modules and tensors, and leaves those in the graph module to be changed with it.

    Args:
        present: the modules and tensors that are in the graph module.
        convert: gives the converted tensor, or the tensor itself.
        training: the mode to be in; None leaves it.
    """

    def __init__(
        self,
        present: Iterable[nn.Module | torch.Tensor],
        convert: Callable[[torch.Tensor], torch.Tensor],
        training: bool | None = None,
    ) -> None:
        self._held = list(present)  # so that a new object cannot take the identity of an old one
        self._present = {id(thing) for thing in self._held}
        self._convert = convert
        self._training = training
        self._modules: dict[int, nn.Module] = {}
        self._tensors: dict[int, torch.Tensor] = {}

    def patch(self, patch: Patch) -> Patch:
        with torch.no_grad():
            changes = tuple(map(self._change, patch.changes))
        return patch if all(map(is_, changes, patch.changes)) else Patch(changes)

    def _change(self, change: Change) -> Change:
        if isinstance(change, SetMember):
            follow: Callable[[Any], Any] = self._module if change.is_module else self._tensor
            old, new = follow(change.old), follow(change.new)
            return change if old is change.old and new is change.new else replace(change, old=old, new=new)
        if isinstance(change, SetAttribute) and change.key == "training" and self._training is not None:
            return replace(change, old=self._training, new=self._training)
        return change

    def _module(self, module: nn.Module | None) -> Any:
        if module is None or id(module) in self._present:
            return module
        if id(module) not in self._modules:
            self._modules[id(module)] = self._followed(module)
            self._held.append(module)
        return self._modules[id(module)]

    def _followed(self, module: nn.Module) -> nn.Module:
        tables: dict[str, dict[str, Any]] = {
            "_parameters": {name: self._tensor(tensor) for name, tensor in module._parameters.items()},
            "_buffers": {name: self._tensor(tensor) for name, tensor in module._buffers.items()},
            "_modules": {name: self._module(child) for name, child in module._modules.items()},
        }
        same = all(
            value is getattr(module, table)[name] for table, items in tables.items() for name, value in items.items()
        )
        if same and self._training in (None, module.training):
            return module
        new: nn.Module = shallow_copy(module)
        new.__dict__.update(tables)
        if self._training is not None:
            new.training = self._training
        return new

    def _tensor(self, tensor: torch.Tensor | None) -> Any:
        if tensor is None or id(tensor) in self._present:
            return tensor
        if id(tensor) not in self._tensors:
            new = self._convert(tensor)
            if new is not tensor and isinstance(tensor, nn.Parameter):
                new = nn.Parameter(new, requires_grad=tensor.requires_grad)
            self._tensors[id(tensor)] = new
            self._held.append(tensor)
        return self._tensors[id(tensor)]


def present_in(gm: GraphModule) -> list[nn.Module | torch.Tensor]:
    """Return the modules, parameters and buffers of a graph module."""
    return [*gm.modules(), *gm.parameters(), *gm.buffers()]


def present_after(patches: Iterable[Patch]) -> list[nn.Module | torch.Tensor]:
    """Return those that a graph module must have after `patches`, if it is itself unknown: it was just loaded."""
    left = {change.path: change.new for patch in patches for change in patch.members}
    found: list[nn.Module | torch.Tensor] = []
    for thing in left.values():
        if isinstance(thing, nn.Module):
            found += [*thing.modules(), *thing.parameters(), *thing.buffers()]
        elif thing is not None:
            found.append(thing)
    return found


def with_tensors_of(gm: GraphModule, patches: list[Patch]) -> list[Patch]:
    """Return `patches` with the tensors that are now where they last put one: a conversion makes new buffers."""
    last = {change.path: change.new for patch in patches for change in patch.members if not change.is_module}
    swap: dict[int, torch.Tensor] = {}
    for path, tensor in last.items():
        parent, _, name = path.rpartition(".")
        owner = gm.get_submodule(parent)
        current = owner._parameters.get(name, owner._buffers.get(name))
        if tensor is not None and current is not None and current is not tensor:
            swap[id(tensor)] = current
    if not swap:
        return patches

    def swapped(change: Change) -> Change:
        if not isinstance(change, SetMember):
            return change
        return replace(change, old=swap.get(id(change.old), change.old), new=swap.get(id(change.new), change.new))

    return [Patch(tuple(map(swapped, patch.changes))) for patch in patches]
