"""State of the tensors that a patch put in, to notice later changes that reversal would lose."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import nn

from fxopt.graph.hooks import gradient_hook_of
from fxopt.graph.tensor_state import TensorState, same_bytes, storages_of
from fxopt.recording.module_changes import Member
from fxopt.recording.patch import Patch


@dataclass(frozen=True, eq=False)
class _Known:
    """A tensor that a patch put in."""

    path: str
    holder: nn.Module | None
    """The module that it is a parameter of; None if a later patch may well put another one there."""
    tensor: torch.Tensor
    state: TensorState

    @classmethod
    def of(cls, path: str, holder: nn.Module | None, tensor: torch.Tensor) -> _Known:
        return cls(path, holder, tensor, TensorState.of(tensor))

    @property
    def current(self) -> torch.Tensor | None:
        """The tensor that is there now; another one after ``load_state_dict(..., assign=True)``."""
        return self.tensor if self.holder is None else self.holder._parameters.get(self.path.rpartition(".")[2])

    @property
    def what_was_done(self) -> str:
        was, now = self.state, TensorState.of(self.tensor)
        if self.current is not self.tensor or was.version != now.version:
            return "was given other values (trained or loaded)"
        if (was.dtype, was.device) != (now.dtype, now.device):
            return f"was moved from {was.dtype} on {was.device} to {now.dtype} on {now.device}"
        if was.requires_grad != now.requires_grad:
            return f"had requires_grad set to {now.requires_grad}"
        if gradient_hook_of(self.tensor):
            return "was given a gradient hook"
        return ""


@dataclass(frozen=True, eq=False)
class PatchState:
    """The tensors that are in the graph module because of a patch; see `PatchState.of`."""

    tensors: tuple[_Known, ...] = ()
    noted: tuple[str, str] | None = None
    """A change that was found before a copy or a file, in which the versions of tensors are lost."""

    @classmethod
    def of(cls, patch: Patch, noted: tuple[str, str] | None = None) -> PatchState:
        return cls(tuple(_new_tensors(patch)), noted)

    @property
    def changed(self) -> tuple[str, str] | None:
        """The path of a tensor that reversal would lose, and its change; None if there is none."""
        found = ((known.path, what) for known in self.tensors if (what := known.what_was_done))
        return self.noted or next(found, None)

    def shares_memory(self, places: Collection[int]) -> bool:
        """Check that one of the tensors lies in memory that begins at one of `places`."""
        tensors = (known.current for known in self.tensors)
        storages = storages_of(tensor for tensor in tensors if tensor is not None)
        return any(storage.data_ptr() in places for storage in storages)

    def is_same_as(self, anew: PatchState) -> bool:
        """Check that all tensors hold, to the bit, the numbers of those of `anew`, which were computed again."""
        return len(self.tensors) == len(anew.tensors) and all(map(_is_same, self.tensors, anew.tensors))

    def followed(self, patch: Patch) -> PatchState:
        """Return the state to compare with once the whole graph module was moved: writes meanwhile still show.

        A conversion leaves the version of a parameter as it is; the new buffers that it makes have no known state.
        """
        before = {known.path: known for known in self.tensors}
        return PatchState(tuple(_followed(before.get(now.path), now) for now in _new_tensors(patch)), self.noted)


def _is_same(known: _Known, anew: _Known) -> bool:
    a, b = known.current, anew.current
    if a is None or b is None or a.is_meta or known.path != anew.path:
        return False
    return TensorState.of(a).kind == TensorState.of(b).kind and same_bytes(a.detach(), b.detach())


def _followed(before: _Known | None, now: _Known) -> _Known:
    if before is None:
        return now
    version = before.state.version if before.tensor is now.tensor else now.state.version
    return replace(now, state=now.state._replace(version=version, requires_grad=before.state.requires_grad))


def _new_tensors(patch: Patch) -> Iterator[_Known]:
    moved = {id(change.old) for change in patch.members if isinstance(change.old, torch.Tensor)}
    for change in patch.members:
        if isinstance(change.new, nn.Module):
            yield from _only_in(change.path, change.new, change.old, moved)
        elif change.new is not None:
            yield _Known.of(change.path, None, change.new)


def _only_in(path: str, new: nn.Module, old: Member | None, moved: Collection[int]) -> Iterator[_Known]:
    """Yield the parameters of `new` that do not survive reversal, as those that `old` has too or that were `moved`."""
    before = {id(tensor) for _, module in _modules_in("", old) for tensor in module._parameters.values()}
    before |= set(moved)
    for where, module in _modules_in(path, new):
        for name, tensor in module._parameters.items():
            if tensor is not None and id(tensor) not in before:
                yield _Known.of(f"{where}.{name}", None if type(module) is nn.Module else module, tensor)


def _modules_in(path: str, module: Member | None) -> Iterable[tuple[str, nn.Module]]:
    if not isinstance(module, nn.Module):
        return ()
    return module.named_modules(prefix=path) if module._modules else [(path, module)]
