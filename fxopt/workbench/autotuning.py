"""Autotuning: a site stays on only if it pays, by the times of its nodes with and without it on this machine.

The passes are judged one after the other, in the order in which they run. For each, two graphs run in turn: with its
sites on and with them off, all else alike. Sites share a decision where they rewrite the same nodes, where a later site
takes the place of several, and where they are alike: the same calls on the same shapes, as in the blocks of a model. A
site saves the difference of the times of its nodes: those that it removes, creates or changes, on both sides. Their
readers count with them where they are slower for certain, as they may be where the site leaves numbers in another order
in memory. A site that is not shown to pay goes off.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd
from torch.fx import GraphModule

from fxopt.core import Entry, Ledger, shared_copy
from fxopt.evidence.latency import measure
from fxopt.evidence.latency_report import FEWEST_ROUNDS, LatencyReport, interval_of
from fxopt.evidence.node_times import paired_node_times
from fxopt.evidence.running import RunStoppedError
from fxopt.graph.nodes import TensorInfo, info_of, module_of, target_name
from fxopt.recording.patch import Patch
from fxopt.workbench.states import Choice
from fxopt.workbench.workbench import Workbench

Progress = Callable[[float], bool | None]

_MOST_ROUNDS = 45
_FOR_THE_WHOLE = 0.25
"""The share of the budget that is kept for the measurement of the whole."""


class Saving(NamedTuple):
    """Seconds that a call takes less, with the bounds of the interval; below 0, it takes more."""

    seconds: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return it in microseconds.

        >>> print(Saving(12e-6, 9e-6, 15e-6))
        saves 12 us [9, 15]
        >>> print(Saving(-3e-6, -5e-6, 1e-6))
        costs 3 us [-1, 5]
        """
        micro = 1e6
        if self.seconds >= 0:
            return f"saves {self.seconds * micro:.3g} us [{self.low * micro:.3g}, {self.high * micro:.3g}]"
        return f"costs {-self.seconds * micro:.3g} us [{-self.high * micro:.3g}, {-self.low * micro:.3g}]"


@dataclass(frozen=True)
class TunedSite:
    """The decision on sites of one pass that are alike, or rewrite the same nodes, with its evidence."""

    pass_name: str
    sites: tuple[str, ...]
    kept: bool
    nodes: Saving | None
    """Of the nodes that they rewrite, all together; None if it was not measured."""
    readers: Saving | None
    """Of those nodes and of the nodes that read them."""

    @property
    def reason(self) -> str:
        if self.nodes is None or self.readers is None:
            return "not measured"
        if self.readers.high < 0 <= self.nodes.high:
            return f"the nodes that read it are slower: with them it {self.readers}"
        told = str(self.nodes) if self.nodes.low > 0 or self.nodes.high < 0 else f"no difference shown: {self.nodes}"
        return told if self.kept or self.nodes.low <= 0 else f"{told}, but all together is slower"

    def __str__(self) -> str:
        more = f" and {len(self.sites) - 1} like it" if len(self.sites) > 1 else ""
        return f"{self.pass_name} at {self.sites[0]}{more}: {'kept' if self.kept else 'left out'}, {self.reason}"


@dataclass(frozen=True, eq=False)
class Tuning:
    """The answer of `autotune`."""

    choices: tuple[Choice, ...]
    """They replay by `Workbench.choose`, and, once chosen, as a `fxopt.Recipe`."""
    sites: tuple[TunedSite, ...]
    latency: LatencyReport | None
    """The graph of `choices` against the original; None if it was not measured."""
    seconds: float
    stopped: str | None = None
    """The reason for an early end; passes that it left unmeasured are as they were."""

    @property
    def kept(self) -> int:
        return sum(len(one.sites) for one in self.sites if one.kept)

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        count = sum(len(one.sites) for one in self.sites)
        told = f"{self.kept} of {count} {'sites pay' if count != 1 else 'site pays'}" if count else "no site is on"
        whole = f"; the whole: {self.latency.verdict}" if self.latency is not None else ""
        return f"{told}{whole}" + (f" (stopped early: {self.stopped})" if self.stopped else "")

    @property
    def frame(self) -> pd.DataFrame:
        """A row for each decision; times in microseconds."""
        rows = [
            (one.pass_name, ", ".join(one.sites), one.kept, *_micro(one.nodes), *_micro(one.readers), one.reason)
            for one in self.sites
        ]
        of_readers = ["saves with readers us", "low with readers", "high with readers"]
        return pd.DataFrame(
            rows, columns=["pass", "sites", "kept", "saves us", "low us", "high us", *of_readers, "reason"]
        )


def _micro(saving: Saving | None) -> tuple[float, ...]:
    return tuple(1e6 * one for one in saving) if saving is not None else (math.nan,) * 3


def autotune(
    wb: Workbench,
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
    *,
    budget: float = 30.0,
    on_progress: Progress | None = None,
) -> Tuning:
    """Find out which of the sites that are on pay for these inputs on this machine; the workbench stays as it is.

    Args:
        args, kwargs: an example, of the sizes that the model is to be fast for.
        budget: seconds by the clock on the wall, about. A pass that gets fewer than six rounds is not judged.
        on_progress: is told the share that is done, and stops it by returning False.

    >>> import torch, fxopt
    >>> class Model(torch.nn.Module):
    ...     def forward(self, x):
    ...         return torch.relu(x * 1)
    >>> example = (torch.rand(512, 512),)
    >>> wb = fxopt.Workbench(Model(), example)
    >>> wb.turn_on("RemoveIdentities")
    >>> found = autotune(wb, example, budget=1)
    >>> found.sites[0].pass_name, found.sites[0].sites
    ('RemoveIdentities', ('mul',))
    >>> wb.choose(found.choices)
    """
    start = time.monotonic()
    mine = wb.another()
    mine.choose(wb.choices, wb.edits)
    passes = [state.name for state in mine.states if state.sites_on]
    told = on_progress or (lambda share: None)
    done: list[TunedSite] = []
    latency: LatencyReport | None = None
    stopped: str | None = None
    try:
        for number, name in enumerate(passes):
            left = (budget * (1 - _FOR_THE_WHOLE) - (time.monotonic() - start)) / (len(passes) - number)
            judged = _judged(mine, name, args, kwargs or {}, left, _part(told, number, len(passes) + 1))
            done += judged
            gone = [site for one in judged if not one.kept for site in one.sites]
            if gone:
                mine.turn_off(name, gone)
        if mine.is_changed:
            left = max(budget - (time.monotonic() - start), budget * _FOR_THE_WHOLE / 2)
            gm = mine.current
            tell = _part(told, len(passes), len(passes) + 1)
            latency = measure(mine.pristine, gm, args, kwargs, budget=left, on_progress=tell)
            if latency.cancelled:
                raise RunStoppedError("cancelled")
    except RunStoppedError:
        stopped = "cancelled"
    if latency is not None and latency.shown and latency.ratio < 1:
        mine.reverse_all()
        done = [TunedSite(one.pass_name, one.sites, False, one.nodes, one.readers) for one in done]
    elif stopped is None and any(one.nodes is None for one in done):
        stopped = f"out of time ({budget:g} s)"
    return Tuning(mine.choices, tuple(done), latency, time.monotonic() - start, stopped)


def _part(told: Progress, number: int, count: int) -> Progress:
    return lambda share: told((number + share) / count)


def _judged(
    wb: Workbench, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], budget: float, told: Progress
) -> list[TunedSite]:
    """Return the decisions on the sites of one pass that are on."""
    if not wb.state_of(name).sites_on:
        return []
    on, off = shared_copy(wb.current), wb.trial(wb.with_(name, on=False))
    off.graph.lint()
    off.recompile()
    kinds: dict[Hashable, tuple[tuple[str, ...], frozenset[str]]] = {}
    for found, own in _clusters(off, on, name):
        if found:
            kind = _kind(off, own), _kind(on, own)
            sites, names = kinds.get(kind, ((), frozenset()))
            kinds[kind] = (*sites, *found), names | own
    times = paired_node_times(off, on, args, kwargs, rounds=_MOST_ROUNDS, budget=budget, on_progress=told)
    if len(times) < FEWEST_ROUNDS:
        return [TunedSite(name, sites, True, None, None) for sites, _ in kinds.values()]
    answers = []
    for sites, own in kinds.values():
        nodes, with_readers = _saving(times, own), _saving(times, own | _readers(off, own) | _readers(on, own))
        pays = nodes.low > 0 and with_readers.high >= 0
        answers.append(TunedSite(name, sites, pays, nodes, with_readers))
    return answers


def _kind(gm: GraphModule, names: frozenset[str]) -> Hashable:
    """Return the calls of the nodes in `names`, each with its shape: the same for sites that are alike."""
    found = []
    for node in gm.graph.nodes:
        if node.name in names:
            module, info = module_of(node), info_of(node)
            call = str(module) if module is not None else target_name(node)
            found.append((call, tuple(map(str, info.shape)) if isinstance(info, TensorInfo) else ()))
    return tuple(found)


def _clusters(off: GraphModule, on: GraphModule, name: str) -> list[tuple[tuple[str, ...], frozenset[str]]]:
    """Return the sites of the pass in groups that rewrite no node in common, each with the nodes that it is about.

    A group has the sites of other passes as well that are on in one of the graphs only, or are another rewrite there.
    """
    told = [{_rewrite(entry): entry for entry in Ledger.entries_of(gm)} for gm in (off, on)]
    groups: list[tuple[set[str], set[str]]] = []
    for side, other in ((0, 1), (1, 0)):
        for key, entry in told[side].items():
            if key in told[other]:
                continue
            sites = {entry.site} if side and entry.name == name else set()
            nodes = set(_nodes(entry.patch))
            near = [group for group in groups if not group[1].isdisjoint(nodes)]
            groups = [group for group in groups if group not in near]
            groups.append((sites.union(*(group[0] for group in near)), nodes.union(*(group[1] for group in near))))
    order = {entry.site: number for number, entry in enumerate(told[1].values())}
    found = [(tuple(sorted(sites, key=order.__getitem__)), frozenset(nodes)) for sites, nodes in groups]
    return sorted(found, key=lambda group: order[group[0][0]] if group[0] else len(order))


def _nodes(patch: Patch) -> tuple[str, ...]:
    return (*patch.removed, *patch.created, *patch.changed)


def _rewrite(entry: Entry) -> tuple[str, tuple[str, ...]]:
    return entry.id, _nodes(entry.patch)


def _readers(gm: GraphModule, names: frozenset[str]) -> frozenset[str]:
    return frozenset(user.name for node in gm.graph.nodes if node.name in names for user in node.users)


def _saving(times: Sequence[tuple[dict[str, float], dict[str, float]]], names: Iterable[str]) -> Saving:
    """Return the time of the nodes in `names` before, less that of those after."""
    names = set(names)
    saved = [sum(one.get(name, 0.0) for name in names) - sum(other.get(name, 0.0) for name in names)
             for one, other in times]  # fmt: skip
    return Saving(statistics.median(saved), *interval_of(saved))
