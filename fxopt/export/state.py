"""Weights of the original for the transformed graph, and back: also trained ones, where that is exact."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule

from fxopt.core import GraphIndex, Ledger, RewriteError
from fxopt.core.ledger import act
from fxopt.errors import FxoptError, expect, expect_graph
from fxopt.graph.copying import TABLES, shallow_copy, shared_copy
from fxopt.recording.patch import undo

State = dict[str, torch.Tensor]


class StateError(FxoptError, ValueError):
    """Weights that cannot be converted."""


@dataclass(frozen=True, eq=False)
class CarriedBack:
    """The weights of the original that those of the transformed graph module stand for."""

    state: State
    """By the names of the original, in its order."""
    lost: Mapping[str, str]
    """By name, the reason why a tensor is not in `state`: a pass has computed others from it."""

    def __repr__(self) -> str:
        lost = "".join(f"\n  lost {name}: {reason}" for name, reason in self.lost.items())
        return f"CarriedBack: {len(self.state)} of {len(self.state) + len(self.lost)} tensors{lost}"


def to_transformed(gm: GraphModule, state: Mapping[str, torch.Tensor]) -> State:
    """Return the ``state_dict`` that a transformed graph module would have, had its original had the weights `state`.

    The passes in force run again on a copy with these weights; `gm` is left as it is.

    >>> import fxopt
    >>> model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 1), torch.nn.BatchNorm2d(2)).eval()
    >>> gm = fxopt.FuseBatchNorm2dInConv2d()(fxopt.capture(model, (torch.rand(2, 1, 3, 3),)))
    >>> list(to_transformed(gm, model.state_dict()))
    ['0.weight', '0.bias']

    Args:
        gm: a graph module with passes in force.
        state: of the original: all of its parameters and buffers by name.

    Raises:
        StateError: names or shapes are others than those of the original, or a pass does not apply to these weights.
    """
    expect_graph(gm, "to_transformed")
    expect(state, Mapping, "to_transformed(gm, state)", "weights by name, as of model.state_dict()")
    known = _tensors(_original(gm))
    firsts = _firsts(known)
    missing, unknown = [*(known.keys() - state.keys())], [*(state.keys() - known.keys())]
    if missing or unknown:
        told = "lacks" if missing else "has, beside those of the original,"
        raise StateError(f"the state {told} {', '.join(sorted(missing or unknown)[:5])}")
    for name, tensor in known.items():
        if state[name].shape != tensor.shape:
            raise StateError(f"{name} is {list(state[name].shape)}, and {list(tensor.shape)} in the original")
        first = firsts[id(tensor)]
        if not torch.equal(state[name].nan_to_num(), state[first].nan_to_num()):
            raise StateError(f"{first} and {name} are one tensor in the original, and have other values in the state")
    return dict(_replayed(gm, state).state_dict())


def to_original(gm: GraphModule) -> CarriedBack:
    """Return the weights of the original that those of a transformed graph module stand for, trained ones too.

    A tensor is carried back where the passes have only moved its numbers: a merged linear splits into its rows, a bias
    column into weight and bias. Where they computed others of it, as a fold of a batch norm does, many originals would
    fit, and the reason is told; so too where a pass has copied it and the copies differ now, one of which may be the
    tensor itself. Names that the original ties have one value. `gm` is left as it is.

    >>> import fxopt
    >>> class Two(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.q, self.k = torch.nn.Linear(4, 3), torch.nn.Linear(4, 5)
    ...     def forward(self, x):
    ...         return self.q(x).sum() + self.k(x).sum()
    >>> gm = fxopt.MergeLinears()(fxopt.capture(Two(), (torch.rand(2, 4),)))
    >>> _ = torch.nn.init.ones_(gm.q_k_merged.weight)
    >>> {name: list(tensor.shape) for name, tensor in to_original(gm).state.items()}
    {'q.weight': [3, 4], 'q.bias': [3], 'k.weight': [5, 4], 'k.bias': [5]}

    Raises:
        StateError: the changes in force cannot be done again on other weights.
    """
    expect_graph(gm, "to_original")
    original, now = _original(gm), _tensors(gm)
    names = {id(tensor): name for name, tensor in now.items()}
    before = _tensors(original)
    firsts = _firsts(before)
    here = {id(tensor) for tensor in before.values()}
    made = [name for name, tensor in now.items() if id(tensor) not in here]
    kept = {name: tensor for name, tensor in before.items() if id(tensor) in names}
    affected = {name: before[name] for name in firsts.values() if name not in kept}
    flat = _flat(gm, made)
    if made:
        affected |= {name: before[name] for name in _read(gm, [name for name in kept if name in firsts.values()], made)}
    found, torn = _sources(gm, affected, made, flat) if made else ({}, set())
    state: State = {}
    lost: dict[str, str] = {}
    for name, tensor in before.items():
        first = firsts[id(tensor)]
        here_now = now[names[id(tensor)]].detach() if name in kept else None
        moved = flat[found[first]].reshape(tensor.shape).to(tensor) if first in found else None
        if first in torn or (here_now is not None and moved is not None and not _same(here_now, moved)):
            lost[name] = "it stands in several tensors of the transformed graph, and they differ now"
        elif here_now is not None and (first not in affected or moved is not None):
            state[name] = here_now.clone()
        elif moved is not None:
            state[name] = moved
        else:
            lost[name] = _reason(gm, name)
    return CarriedBack(state, lost)


def _firsts(tensors: State) -> dict[int, str]:
    """Return the first name of each tensor, by its id: names that are tied have one tensor."""
    found: dict[int, str] = {}
    for name, tensor in tensors.items():
        found.setdefault(id(tensor), name)
    return found


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one.isnan(), other.isnan()) and torch.equal(one.nan_to_num(), other.nan_to_num())


def _read(gm: GraphModule, names: Sequence[str], made: Sequence[str]) -> list[str]:
    """Return those of some tensors of the original, which stay in the graph, that the passes make `made` of too.

    The passes run again with other values of them, of half of them at a time where something depends on them.
    """
    values = _tensors(_original(gm))
    floats = [name for name in names if values[name].is_floating_point() and values[name].numel()]
    usual = _flat(_replayed(gm, {}), made)

    def depends(some: Sequence[str]) -> bool:
        other = {name: torch.where(values[name].isfinite(), values[name] + 1, 1).detach() for name in some}
        try:
            return not _same(_flat(_replayed(gm, other), made), usual)
        except StateError:  # a condition of a pass reads them
            return len(some) > 1

    def among(some: Sequence[str]) -> list[str]:
        if not some or not depends(some):
            return []
        half = len(some) // 2
        return list(some) if len(some) == 1 else [*among(some[:half]), *among(some[half:])]

    return among(floats)


def _reason(gm: GraphModule, name: str) -> str:
    path = name.rpartition(".")[0]
    for entry in Ledger.entries_of(gm):
        if any(path in (one.path, one.path.rpartition(".")[0]) or name == one.path for one in entry.patch.members):
            return f"{entry.name} at {entry.site} has computed other numbers from it, which many originals would give"
    return "no weights of the transformed graph are its numbers"


def _original(gm: GraphModule) -> GraphModule:
    """Return a copy of `gm` with every patch undone, trained or not: its shapes and names are those of the original."""
    copied = shared_copy(gm)
    patches = [entry.patch for entry in Ledger.entries_of(copied)]
    Ledger.of(copied).detach(copied)
    try:
        undo(GraphIndex(copied), patches)
    except RewriteError as error:
        raise StateError(f"the changes in force cannot be undone to find the original: {error}") from error
    return copied


def _replayed(gm: GraphModule, state: Mapping[str, torch.Tensor]) -> GraphModule:
    """Return the graph module that the passes in force make of the original with other weights."""
    made = _with_state(_original(gm), state)
    index = GraphIndex(made)
    for (_, pass_), entries in itertools.groupby(Ledger.entries_of(gm), lambda one: (one.signature, one.pass_)):
        sites = {entry.site for entry in entries}
        done = act(made, partial(pass_.run_again, index, sites))
        if left := sites - done:
            name = getattr(pass_, "name", type(pass_).__name__)
            raise StateError(f"{name} does not apply at {', '.join(sorted(left)[:3])} with other weights")
    return made


def _with_state(gm: GraphModule, state: Mapping[str, torch.Tensor]) -> GraphModule:
    """Give `gm` copies of its modules, with other parameters and buffers; ties stay, of which one name is enough."""
    modules: dict[int, nn.Module] = {id(gm): gm}
    tensors: dict[int, Any] = {}
    for name, tensor in _tensors(gm).items():
        if name in state and id(tensor) not in tensors:
            value = state[name].detach()
            is_parameter = isinstance(tensor, nn.Parameter)
            tensors[id(tensor)] = nn.Parameter(value, tensor.requires_grad) if is_parameter else value

    def copied(module: nn.Module) -> nn.Module:
        new = modules.setdefault(id(module), shallow_copy(module) if module is not gm else gm)
        for table in TABLES[1:]:
            for name, tensor in list(getattr(module, table).items()):
                if id(tensor) in tensors:
                    getattr(new, table)[name] = tensors[id(tensor)]
        for name, child in list(module._modules.items()):
            if child is not None:
                new._modules[name] = modules.get(id(child)) or copied(child)
        return new

    copied(gm)
    return gm


def _sources(
    gm: GraphModule, affected: State, made: Sequence[str], flat: torch.Tensor
) -> tuple[dict[str, torch.Tensor], set[str]]:
    """Return, for each tensor whose numbers are only moved, the place of each number among those of the tensors `made`.

    `flat` has the present numbers of the tensors `made`. Returned too are the names of the tensors of which a number
    stands in several places, with different values there. The passes run on weights that are numbered, digit by digit,
    and once more on random ones, for proof.
    """
    starts = list(itertools.accumulate((tensor.numel() for tensor in affected.values()), initial=0))
    count = starts[-1]
    if not count:
        return {}, set()
    base = 2 ** min(_bits(tensor) for tensor in affected.values())
    numbers, unit = torch.arange(count), 1
    known = torch.zeros(0, dtype=torch.long)
    is_known = torch.zeros(0, dtype=torch.bool)
    while unit == 1 or unit < count:
        digits = _run_on(gm, affected, starts, made, (numbers // unit) % base + 1)
        whole = digits.nan_to_num(0.0, 0.0, 0.0).clamp(0, base).long()
        is_digit = (whole == digits) & (whole >= 1)
        known = (whole - 1) * unit if unit == 1 else known + (whole - 1) * unit
        is_known = is_digit if unit == 1 else is_known & is_digit
        unit *= base
    values = torch.randint(1, base + 1, (count,), generator=torch.Generator().manual_seed(0))
    known = torch.where(is_known & (known < count), known, 0)
    is_known &= values[known] == _run_on(gm, affected, starts, made, values)
    places = torch.full((count,), -1)
    of, where = known[is_known], is_known.nonzero().squeeze(1)
    places[of] = where
    pairs = zip(affected, itertools.pairwise(starts))
    found = {name: places[start:end] for name, (start, end) in pairs if bool((places[start:end] >= 0).all())}
    one, other = flat[where], flat[places[of]]
    differing = of[(one != other) & ~(one.isnan() & other.isnan())]
    names = torch.bucketize(differing, torch.tensor(starts[1:]), right=True).unique().tolist()
    return found, {list(affected)[i] for i in names}


def _run_on(
    gm: GraphModule, affected: State, starts: Sequence[int], made: Sequence[str], numbers: torch.Tensor
) -> torch.Tensor:
    """Return the numbers of the tensors `made`, in a row, where the affected weights of the original are `numbers`."""
    state = {
        name: numbers[start:end].reshape(tensor.shape).to(tensor.dtype)
        for (name, tensor), start, end in zip(affected.items(), starts, starts[1:])
    }
    other = _replayed(gm, state)
    shapes, now = _tensors(other), _tensors(gm)
    if any(name not in shapes or shapes[name].shape != now[name].shape for name in made):
        raise StateError("the changes in force make other weights when they are done again")
    return _flat(other, made)


def _flat(gm: GraphModule, names: Sequence[str]) -> torch.Tensor:
    tensors = _tensors(gm)
    parts = [tensors[name].detach().reshape(-1).to(torch.float64) for name in names]
    return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.float64)


def _bits(tensor: torch.Tensor) -> int:
    """Return the number of bits of whole numbers that the dtype of a tensor holds exactly, less one for safety."""
    if tensor.dtype.is_floating_point:
        return {torch.float64: 50, torch.float32: 22, torch.float16: 9}.get(tensor.dtype, 6)
    return 6


def _tensors(gm: GraphModule) -> State:
    """Return the parameters and buffers of the ``state_dict`` themselves, by name."""
    return {name: one for name, one in gm.state_dict(keep_vars=True).items() if isinstance(one, torch.Tensor)}
