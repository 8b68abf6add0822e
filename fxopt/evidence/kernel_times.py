"""Time of each node in kernels: the part in which operators compute, told apart from Python and dispatch.

torch's profiler tells the time of each operator, and that of the operators that it calls. The difference is its own.
The kernels of a node are the own times of the operators that compute numbers: not of those that call others alone
(``CompositeImplicitAutograd``, as ``aten::linear``), that give a view, or that allocate. All else in the time of the
node is Python, the parsing of arguments, dispatch, views, and the memory of tensors.

The profiler slows a call down, but little of that lies between its two reads of the clock around a kernel: under a
microsecond. Its clock is that on the wall, which runs on while a node waits for a processor that works for others: so
the kernels of a node count by the share of CPU time in the time of the node in that call. An operator that sets its
work up in C++ before it computes, as those of oneDNN for some 10 microseconds, counts as a kernel with that.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.autograd.profiler_util import FunctionEvent
from torch.fx import GraphModule
from torch.profiler import ProfilerActivity, profile, record_function

from fxopt.evidence.clocked import with_clock
from fxopt.evidence.running import EvidenceError

_RANGE = "fxopt statement "
_COMPOSITE = "CompositeImplicitAutograd"
_LOG_LEVEL = "KINETO_LOG_LEVEL"
_ALLOCATE = ("empty", "new_empty", "resize", "set_", "lift_fresh")


def kernels_in_a_call(gm: GraphModule, example: tuple[tuple[Any, ...], dict[str, Any]]) -> list[float]:
    """Return the seconds in kernels of each statement of `gm`, in one call on an example, in the order of the code.

    Raises:
        EvidenceError: a profiler of torch is running already.
    """
    if torch._C._autograd._profiler_enabled():
        raise EvidenceError("a profiler of torch is running, and there can be one at a time: end it first")
    ranges = _Ranges()
    _, timed, cpu = with_clock(gm, ranges)
    args, kwargs = example
    with _quiet(), profile(activities=[ProfilerActivity.CPU], acc_events=True) as run:
        try:
            timed(gm, *args, **kwargs)
        finally:
            ranges.end()
    return _kernels(run.events() or (), cpu)


class _Ranges:
    """A clock whose reading opens a range of the profiler for the statement that comes next."""

    def __init__(self) -> None:
        self._open: Any = None
        self._number = 0

    def __call__(self) -> int:
        self.end()
        self._open = record_function(f"{_RANGE}{self._number}")
        self._number += 1
        now = time.thread_time_ns()
        self._open.__enter__()
        return now

    def end(self) -> None:
        """Close the range that is open."""
        if self._open is not None:
            self._open.__exit__(None, None, None)
            self._open = None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the profiler, which tells its beginning and end, off the standard error of the process."""
    if _LOG_LEVEL in os.environ:
        yield
        return
    os.environ[_LOG_LEVEL] = "99"
    try:
        yield
    finally:
        del os.environ[_LOG_LEVEL]


def _kernels(events: Iterable[FunctionEvent], cpu: list[int]) -> list[float]:
    inside: dict[int, float] = defaultdict(float)
    whole: dict[int, float] = {}
    for event in events:
        if event.name.startswith(_RANGE):
            whole[int(event.name.removeprefix(_RANGE))] = event.cpu_time_total
        elif computes(event.name) and (number := _statement(event)) is not None:
            inside[number] += event.self_cpu_time_total
    found = []
    for number, (begin, end) in enumerate(itertools.pairwise(cpu)):
        wall = whole.get(number, 0.0) * 1000
        ran = min(1.0, (end - begin) / wall) if wall else 1.0
        found.append(inside[number] * ran / 1e6)
    return found


def _statement(event: FunctionEvent) -> int | None:
    """Return the number of the statement in which an operator ran."""
    around = event.cpu_parent
    while around is not None:
        if around.name.startswith(_RANGE):
            return int(around.name.removeprefix(_RANGE))
        around = around.cpu_parent
    return None


@functools.cache
def computes(name: str) -> bool:
    """Return whether the own time of the operator `name` is that of a kernel.

    >>> computes("aten::addmm"), computes("aten::linear"), computes("aten::transpose"), computes("aten::empty")
    (True, False, False, False)
    """
    space, separator, base = name.partition("::")
    packet = getattr(getattr(torch.ops, space), base, None) if separator and base.isidentifier() else None
    if packet is None or base.startswith(_ALLOCATE):
        return False
    overloads = [getattr(packet, one) for one in packet.overloads()]
    known = [one for one in overloads if torch._C._dispatch_has_kernel(one.name())]  # others are of TorchScript alone
    calls_others = any(torch._C._dispatch_has_kernel_for_dispatch_key(one.name(), _COMPOSITE) for one in known)
    return bool(known) and not calls_others and not any(one.is_view for one in known)
