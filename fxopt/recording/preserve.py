"""Protection of the user's model against the assignments of a transformation.

A graph module shares its leaf modules with the model it was traced from. A transformation written by hand may well
assign into one: ``linear.weight = nn.Parameter(...)``, ``module.eval()``, a hook. It means another module in this
graph, rather than another model, so the graph gets a copy of the module as it is now, which shares all tensors that
were left alone, and the module itself is put back.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule

from fxopt.graph.copying import shallow_copy
from fxopt.graph.marks import LEDGER
from fxopt.recording.module_state import children_of
from fxopt.recording.snapshot import Snapshot
from fxopt.recording.tensor_snapshot import TensorSnapshot


def preserve(before: Snapshot, gm: GraphModule) -> list[str]:
    """Replace in `gm` every module of the snapshot that was changed by a copy, and put the module itself back.

    The containers that torch.fx makes belong to the graph module; they are changed in place, as a patch says.

    Returns:
        the paths of tensors that were written to in place where no copy of their numbers was taken. They are left as
        they are.
    """
    changed = {key: state for key, state in before.tensors.items() if state.has_changed}
    written = [state.path for state in changed.values() if state.copied is None and state.was_written]
    if written:
        return written
    keeper = _Keeper(before, gm, changed)
    keeper.kept(gm)
    for state in before.objects:
        if id(state.thing) in keeper.own or _belongs_to_another(state.thing, before, gm):
            continue
        if state.has_changed():
            state.restore()
    for tensor in changed.values():
        tensor.restore()
    return []


def _belongs_to_another(module: nn.Module, before: Snapshot, gm: GraphModule) -> bool:
    """Return whether the module is a part of the graph module that was given, and another one was returned."""
    return before.gm is not gm and (module is before.gm or type(module) is nn.Module)


def _containers(before: Snapshot, gm: GraphModule) -> dict[int, nn.Module]:
    """Return the modules of `gm` that belong to it: itself, and plain containers that were there before."""
    own: dict[int, nn.Module] = {id(gm): gm}
    todo: list[tuple[nn.Module | None, nn.Module]] = [(before.gm, gm)]
    while todo:
        old, new = todo.pop()
        children = children_of(before.modules[id(old)])
        for name, child in new._modules.items():
            was = children.get(name)
            if type(child) is nn.Module and type(was) is nn.Module and id(child) not in own:
                own[id(child)] = child
                todo.append((was, child))
    return own


class _Keeper:
    """Makes the copies, one for each module and tensor, however often it is registered."""

    def __init__(self, before: Snapshot, gm: GraphModule, changed: dict[int, TensorSnapshot]) -> None:
        self.before = before
        self.own = _containers(before, gm)
        self._changed = changed
        self._modules: dict[int, nn.Module] = {}
        self._tensors: dict[int, torch.Tensor] = {}

    def kept(self, module: nn.Module) -> nn.Module:
        """Return the module that `gm` is to have in place of `module`: a copy, or itself if it is unchanged."""
        if id(module) in self._modules:
            return self._modules[id(module)]
        self._modules[id(module)] = module
        was = self.before.modules.get(id(module))
        swapped: dict[str, Any] = self._new_tensors(module)
        for name, child in module._modules.items():
            if child is not None and name != LEDGER:
                kept = self.kept(child)
                if kept is not child:
                    swapped[name] = kept
        if id(module) in self.own or was is None:
            _put(module, swapped)
        elif swapped or was.has_changed():
            self._modules[id(module)] = copy = shallow_copy(module)
            _put(copy, swapped)
        return self._modules[id(module)]

    def _new_tensors(self, module: nn.Module) -> dict[str, torch.Tensor]:
        if not self._changed:
            return {}
        found = {**module._parameters, **module._buffers}
        found |= {name: value for name, value in module.__dict__.items() if isinstance(value, torch.Tensor)}
        changed = {n: t for n, t in found.items() if t is not None and id(t) in self._changed}
        return {name: self._tensor(tensor) for name, tensor in changed.items()}

    def _tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in self._tensors:
            self._tensors[id(tensor)] = self._changed[id(tensor)].replacement()
        return self._tensors[id(tensor)]


def _put(module: nn.Module, items: dict[str, Any]) -> None:
    for name, value in items.items():
        tables = (module._modules, module._parameters, module._buffers, module.__dict__)
        next(table for table in tables if name in table)[name] = value
