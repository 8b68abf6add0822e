"""Parameters by module, before and after: sums that agree with the modules themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd
from torch import Tensor, nn

from fxopt.display import Displayed
from fxopt.evidence.difference import same_bits


@dataclass(frozen=True)
class Totals:
    """Counts of elements, and bytes. A tensor under several names is counted once."""

    parameters: int
    parameter_bytes: int
    buffers: int
    buffer_bytes: int


@dataclass(frozen=True)
class ParameterRow:
    """The tensors of one module, less those of its children; `what` describes the change."""

    path: str
    kind: str
    parameters_before: int
    parameters_after: int
    bytes_before: int
    bytes_after: int
    buffers_before: int
    buffers_after: int
    dtype: str
    changed: bool
    what: str


@dataclass(frozen=True)
class ParameterTable(Displayed):
    """A row for each module that holds tensors, in the order of the modules; totals; ties in words."""

    rows: tuple[ParameterRow, ...]
    before: Totals
    after: Totals
    ties: tuple[str, ...]

    def __repr__(self) -> str:
        told = f"{self.before.parameters:,} parameters, then {self.after.parameters:,}"
        return f"ParameterTable({told}; {len(self.changed_rows)} of {len(self.rows)} modules changed)"

    @property
    def changed_rows(self) -> tuple[ParameterRow, ...]:
        return tuple(row for row in self.rows if row.changed)

    @property
    def frame(self) -> pd.DataFrame:
        return pd.DataFrame(self.rows, columns=list(ParameterRow.__dataclass_fields__))

    @property
    def summary(self) -> str:
        """Give the totals in a sentence."""
        before, after = self.before.parameters, self.after.parameters
        change = f"{after - before:+,}" if after != before else "as many as before"
        ties = f"; counted once: {'; '.join(self.ties)}" if self.ties else ""
        return f"{after:,} parameters ({change}), {self.after.buffers:,} elements in buffers{ties}"


@dataclass(frozen=True, eq=False)
class _Held:
    """A tensor in a module; `tied_to` names the place where the same tensor was counted already."""

    tensor: Tensor
    is_parameter: bool
    tied_to: str | None

    @property
    def size(self) -> str:
        return " x ".join(map(str, self.tensor.shape)) or "scalar"


@dataclass(frozen=True, eq=False)
class _Holder:
    kind: str
    held: dict[str, _Held]

    def count(self, parameters: bool) -> tuple[int, int]:
        """Return the elements and bytes that count here."""
        counted = [
            held.tensor for held in self.held.values() if held.is_parameter == parameters and held.tied_to is None
        ]
        return sum(t.numel() for t in counted), sum(t.numel() * t.element_size() for t in counted)


def parameter_table(before: nn.Module, after: nn.Module) -> ParameterTable:
    """Compare the parameters and buffers of the modules of two models.

    The totals are ``sum(p.numel() for p in model.parameters())`` and the same of ``buffers()``.
    """
    old, new = _holders(before), _holders(after)
    paths = list(old) + [path for path in new if path not in old]
    paths = [path for path in paths if any(path in all_ and all_[path].held for all_ in (old, new))]
    ties = {f"{name} is {tied}" for holders in (old, new) for name, tied in _ties(holders)}
    return ParameterTable(
        rows=tuple(_row(path, old.get(path), new.get(path)) for path in paths),
        before=_totals(old),
        after=_totals(new),
        ties=tuple(sorted(ties)),
    )


def _holders(model: nn.Module) -> dict[str, _Holder]:
    counted_at: dict[int, str] = {}
    holders = {}
    for path, module in model.named_modules(remove_duplicate=False):
        held = {}
        for is_parameter, tensors in ((True, module._parameters), (False, module._buffers)):
            for name, tensor in tensors.items():
                if tensor is not None:
                    place = f"{path}.{name}" if path else name
                    first = counted_at.setdefault(id(tensor), place)
                    held[name] = _Held(tensor, is_parameter, first if first != place else None)
        holders[path] = _Holder(type(module).__name__, held)
    return holders


def _ties(holders: dict[str, _Holder]) -> Iterator[tuple[str, str]]:
    for path, holder in holders.items():
        for name, held in holder.held.items():
            if held.tied_to is not None:
                yield f"{path}.{name}" if path else name, held.tied_to


def _totals(holders: dict[str, _Holder]) -> Totals:
    counts = [(*holder.count(parameters=True), *holder.count(parameters=False)) for holder in holders.values()]
    return Totals(*(sum(column) for column in zip(*counts))) if counts else Totals(0, 0, 0, 0)


def _row(path: str, old: _Holder | None, new: _Holder | None) -> ParameterRow:
    nothing = _Holder("", {})
    one, other = old or nothing, new or nothing
    (count_old, bytes_old), (count_new, bytes_new) = one.count(True), other.count(True)
    kinds = dict.fromkeys(holder.kind for holder in (old, new) if holder)
    current = new or old or nothing
    dtypes = dict.fromkeys(str(held.tensor.dtype).removeprefix("torch.") for held in current.held.values())
    changes = [" became ".join(kinds)] if len(kinds) > 1 else []
    changes += _changes(one, other)
    ties = [f"{name} is {held.tied_to}" for name, held in current.held.items() if held.tied_to]
    if old is None or new is None:
        changes = ["removed" if new is None else "added"]
    return ParameterRow(
        path=path or "(root)",
        kind=" → ".join(kinds),
        parameters_before=count_old,
        parameters_after=count_new,
        bytes_before=bytes_old,
        bytes_after=bytes_new,
        buffers_before=one.count(False)[0],
        buffers_after=other.count(False)[0],
        dtype=", ".join(dtypes),
        changed=bool(changes),
        what="; ".join(changes + ties),
    )


def _changes(old: _Holder, new: _Holder) -> Iterator[str]:
    for name in dict.fromkeys([*old.held, *new.held]):
        before, after = old.held.get(name), new.held.get(name)
        if before is None or after is None:
            held = before or after
            yield f"{name} {'added' if before is None else 'removed'} ({held.size if held else ''})"
        elif before.tensor is after.tensor:
            continue
        elif before.tensor.shape != after.tensor.shape:
            yield f"{name} {before.size} → {after.size}"
        elif before.tensor.dtype != after.tensor.dtype:
            yield f"{name} {before.tensor.dtype} → {after.tensor.dtype}".replace("torch.", "")
        elif not same_bits(before.tensor, after.tensor):
            yield f"{name} has other values"
