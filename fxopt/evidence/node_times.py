"""Time of each node: the generated code of the graph with a clock read after each statement.

A profiler and torch's interpreter slow a graph down by a quarter or more, and the small nodes most. The graph's own
code with a read of the clock behind each statement runs as fast as without, up to the reads themselves, whose time is
measured and taken off. A node's time is the median over the rounds, in CPU time of this thread, with torch held to one
thread. It contains the whole statement: Python, the dispatch of torch, the kernel, and the release of tensors
that are read no more.
"""

from __future__ import annotations

import itertools
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from torch.fx import GraphModule, Node

from fxopt.evidence.clocked import with_clock
from fxopt.evidence.costs import Costs, Parts
from fxopt.evidence.kernel_times import kernels_in_a_call
from fxopt.evidence.latency import measuring
from fxopt.evidence.running import EvidenceError, RunStoppedError, copied, left_as_it_was
from fxopt.graph.nodes import module_of, module_stack_of, target_name

_WARM_UPS = 2
_PROFILED = 3
"""The calls under the profiler."""
_READS = 1000

Progress = Callable[[float], bool | None]


@dataclass(frozen=True)
class NodeTimes:
    """Seconds of CPU time of each node in one call, by its name, in the order of the graph."""

    seconds: Mapping[str, float]
    calls: Mapping[str, str]
    """The class of module, the function or the method that each node calls; its op if it calls none."""
    modules: Mapping[str, str]
    """The path of the module that each node belongs to; "" for the model itself."""
    whole: float
    """Seconds of a call of the graph without the clock, the median over the same rounds."""
    rounds: int
    kernels: Mapping[str, float] | None = None
    """The part of the seconds of each node that operators compute in; the rest is Python, dispatch, views and memory.
    None where it was not measured."""

    def __repr__(self) -> str:
        return f"NodeTimes({len(self.seconds)} nodes, {self.whole * 1000:.2f} ms a call, {self.rounds} rounds)"

    @property
    def total(self) -> float:
        """The sum over the nodes, in seconds."""
        return sum(self.seconds.values())

    @property
    def kernel_share(self) -> float | None:
        """The share of the total that is spent in kernels, 0 to 1; None where it was not measured."""
        return None if self.kernels is None or not self.total else sum(self.kernels.values()) / self.total

    @property
    def costs(self) -> Costs:
        """The times as costs, in nanoseconds."""
        kernels = None if self.kernels is None else Costs("nanosecond", _parts(self.kernels))
        return Costs("nanosecond", _parts(self.seconds), kernels=kernels)

    def share(self, names: Iterable[str]) -> float:
        """Return the share of the total that the nodes in `names` take, 0 to 1; each counts once."""
        return sum(self.seconds.get(name, 0.0) for name in set(names)) / self.total if self.total else 0.0

    @property
    def frame(self) -> pd.DataFrame:
        """A row for each node: the most costly first; times in microseconds."""
        rows = [(name, self.calls[name], self.modules[name], *self._figures([name])) for name in self.seconds]
        frame = pd.DataFrame(rows, columns=["node", "calls", "module", *self._columns])
        return frame.sort_values("us", ascending=False, kind="stable", ignore_index=True)

    @property
    def by_call(self) -> pd.DataFrame:
        """A row for all nodes that call the same: how many, and their time together in microseconds."""
        return self._grouped("calls", self.calls)

    def by_module(self, depth: int | None = None) -> pd.DataFrame:
        """A row for the nodes of each module: how many, and their time together in microseconds.

        Args:
            depth: the number of names of the path that tell modules apart; None for all.
        """
        paths = {name: ".".join(path.split(".")[:depth]) for name, path in self.modules.items()}
        return self._grouped("module", paths)

    def _grouped(self, title: str, group_of: Mapping[str, str]) -> pd.DataFrame:
        groups: dict[str, list[str]] = defaultdict(list)
        for name in self.seconds:
            groups[group_of[name]].append(name)
        rows = [(group, len(names), *self._figures(names)) for group, names in groups.items()]
        frame = pd.DataFrame(rows, columns=[title, "nodes", *self._columns])
        return frame.sort_values("us", ascending=False, kind="stable", ignore_index=True)

    @property
    def _columns(self) -> tuple[str, ...]:
        return ("us", "share") if self.kernels is None else ("us", "share", "kernel_us", "overhead_us")

    def _figures(self, names: Iterable[str]) -> tuple[float, ...]:
        names = list(names)
        us = 1e6 * sum(self.seconds[name] for name in names)
        if self.kernels is None:
            return us, self.share(names)
        kernel = 1e6 * sum(self.kernels[name] for name in names)
        return us, self.share(names), kernel, us - kernel


def _parts(seconds: Mapping[str, float]) -> dict[str, Parts]:
    return {name: frozenset({(name, round(each * 1e9))}) for name, each in seconds.items() if each > 0}


def node_times(
    gm: GraphModule,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    rounds: int = 15,
    budget: float = 30.0,
    kernels: bool = False,
    on_progress: Progress | None = None,
    clock: Callable[[], int] = time.thread_time_ns,
) -> NodeTimes:
    """Measure the time of each node of `gm` on an example, in CPU time of one thread.

    Args:
        rounds: the number of calls with the clock; each stands beside a call without it.
        budget: the seconds after which it ends, with the rounds that are done, at least one.
        kernels: whether calls under torch's profiler tell the part of each node that is in kernels, as well.
        on_progress: is told the share that is done; it ends the measurement by returning False.
        clock: gives nanoseconds.

    Raises:
        EvidenceError: there is no round.
        RunStoppedError: the measurement was cancelled.

    >>> model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU())
    >>> times = node_times(torch.fx.symbolic_trace(model), (torch.rand(2, 64),), rounds=3)
    >>> list(times.seconds), times.rounds
    (['input_1', '_0', '_1', 'output'], 3)
    """
    if rounds < 1:
        raise EvidenceError(f"{rounds} rounds measure nothing: give at least 1")
    names, timed, ticks = with_clock(gm, clock)
    example = (args, dict(kwargs or {}))
    told = on_progress or (lambda share: None)
    steps = rounds + (_PROFILED if kernels else 0)
    wholes: list[int] = []
    found: list[list[int]] = []
    with measuring(lambda: told(0.0)) as is_wanted, torch.inference_mode(), left_as_it_was(gm):
        deadline = time.monotonic() + budget
        read = _time_of_a_read(clock)
        for number in range(-_WARM_UPS, rounds):
            if not is_wanted or told(max(0, number) / steps) is False:
                raise RunStoppedError("the measurement of the nodes was cancelled")
            plain, watched = copied(example), copied(example)  # a graph may write to its inputs
            start = clock()
            gm(*plain[0], **plain[1])
            whole = clock() - start
            ticks.clear()
            timed(gm, *watched[0], **watched[1])
            if number >= 0:
                wholes.append(whole)
                found.append([max(0, after - before - read) for before, after in itertools.pairwise(ticks)])
            if found and time.monotonic() > deadline:
                break
        profiled: list[list[float]] = []
        for number in range(_PROFILED if kernels else 0):
            if not is_wanted or told((rounds + number) / steps) is False:
                raise RunStoppedError("the measurement of the nodes was cancelled")
            profiled.append(kernels_in_a_call(gm, copied(example)))
            if time.monotonic() > deadline:
                break
    seconds = dict.fromkeys((node.name for node in gm.graph.nodes), 0.0)
    for name, values in zip(names, zip(*found), strict=True):
        seconds[name] = statistics.median(values) / 1e9
    inside = dict.fromkeys(seconds, 0.0)
    for name, parts in zip(names, zip(*profiled)):
        inside[name] = min(seconds[name], statistics.median(parts))
    nodes = {node.name: node for node in gm.graph.nodes}
    return NodeTimes(
        seconds=seconds,
        calls={name: _called(node) for name, node in nodes.items()},
        modules={name: next(reversed(module_stack_of(node)), ("", ""))[0] for name, node in nodes.items()},
        whole=statistics.median(wholes) / 1e9,
        rounds=len(found),
        kernels=inside if kernels else None,
    )


def paired_node_times(
    before: GraphModule,
    after: GraphModule,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    rounds: int = 15,
    budget: float = 30.0,
    on_progress: Progress | None = None,
    clock: Callable[[], int] = time.thread_time_ns,
) -> list[tuple[dict[str, float], dict[str, float]]]:
    """Measure the seconds of each node of two graphs, side by side: in each round both run, in random order.

    The difference of two numbers of one round is less noisy than that of two medians. The arguments are those of
    `node_times`; with a budget that is too small for a round, there is none.

    Raises:
        RunStoppedError: the measurement was cancelled.
    """
    example = (args, dict(kwargs or {}))
    told = on_progress or (lambda share: None)
    sides = [with_clock(gm, clock) for gm in (before, after)]
    found: list[tuple[dict[str, float], dict[str, float]]] = []
    order = random.Random(0)
    with (
        measuring(lambda: told(0.0)) as is_wanted,
        torch.inference_mode(),
        left_as_it_was(before),
        left_as_it_was(after),
    ):
        deadline = time.monotonic() + budget
        read = _time_of_a_read(clock)
        for number in range(-_WARM_UPS, rounds):
            seconds: list[dict[str, float]] = [{}, {}]
            for side in order.sample((0, 1), 2):
                if not is_wanted or told(max(0, number) / rounds) is False:
                    raise RunStoppedError("the measurement of the nodes was cancelled")
                names, timed, ticks = sides[side]
                for _ in range(2):  # the first fills the caches, from which the other graph has driven its weights
                    ticks.clear()
                    given = copied(example)
                    timed((before, after)[side], *given[0], **given[1])
                spent = (max(0, later - earlier - read) / 1e9 for earlier, later in itertools.pairwise(ticks))
                seconds[side] = dict(zip(names, spent, strict=True))
            if number >= 0:
                found.append((seconds[0], seconds[1]))
            if time.monotonic() > deadline:
                break
    return found


def _time_of_a_read(clock: Callable[[], int]) -> int:
    ticks: list[int] = []
    for _ in range(_READS):
        ticks.append(clock())
    return int(statistics.median(after - before for before, after in itertools.pairwise(ticks)))


def _called(node: Node) -> str:
    module = module_of(node)
    if module is not None:
        return type(module).__name__
    return target_name(node) if node.op.startswith("call") else node.op
