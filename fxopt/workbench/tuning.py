"""The time of each packed linear layer on real inputs, against torch's own functions."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Interpreter, Node

from fxopt.evidence.running import in_order, left_as_it_was
from fxopt.packed import PackedLinear

_ROUNDS = 9
_SAMPLE_SECONDS = 0.002
_SLOWER = 0.9
"""Here a weight is read again and again, and lies in the cache, where packing brings less than in the whole model."""


@dataclass(frozen=True)
class SiteTime:
    """The time of the packed layers that are alike: of one shape, on inputs of one shape."""

    sites: tuple[str, ...]
    layer: str
    shape: tuple[int, ...]
    """Of the input."""
    ratio: float
    """The time by torch over that of the packed layer: above 1, packing pays."""

    @property
    def is_slower(self) -> bool:
        return self.ratio < _SLOWER

    def __str__(self) -> str:
        more = f" and {len(self.sites) - 1} more" if len(self.sites) > 1 else ""
        return f"{self.sites[0]}{more}: {self.layer} on {self.shape} is {1 / self.ratio:.2f}x slower when packed"


def site_times(gm: GraphModule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[SiteTime]:
    """Measure the packed linear layers of `gm` in CPU time of one thread, one of each kind."""
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        with torch.inference_mode(), left_as_it_was(gm):
            recorder = _Recorder(gm)
            recorder.run(*in_order(gm, args, kwargs), enable_io_processing=False)
            return [
                SiteTime(tuple(names), str(module), tuple(given[0].shape), _ratio(module, given))
                for names, module, given in recorder.kinds.values()
            ]
    finally:
        torch.set_num_threads(threads)


class _Recorder(Interpreter):
    """Notes, for each kind of packed layer, the nodes and the inputs of one."""

    def __init__(self, gm: GraphModule) -> None:
        super().__init__(gm)
        self.kinds: dict[Any, tuple[list[str], PackedLinear, tuple[Tensor, ...]]] = {}

    def run_node(self, n: Node) -> Any:
        module = self.fetch_attr(str(n.target)) if n.op == "call_module" else None
        if isinstance(module, PackedLinear):
            given, _ = self.fetch_args_kwargs_from_env(n)
            given = given or tuple(self.fetch_args_kwargs_from_env(n)[1].values())
            key = (str(module), *((one.shape, one.dtype, one.stride()) for one in given))
            if key in self.kinds:
                self.kinds[key][0].append(n.name)
            else:
                self.kinds[key] = ([n.name], module, given)
        return super().run_node(n)


def _ratio(module: PackedLinear, given: tuple[Tensor, ...]) -> float:
    """Return the median ratio of rounds that time both ways in random order."""
    x, other = given[0], given[1] if len(given) > 1 else None
    ways: dict[str, Callable[[], Tensor]] = {
        "torch": lambda: module.by_torch(x, other),
        "packed": lambda: module(x, other),
    }
    once = min(_seconds(way, 1) for way in ways.values() for _ in range(2))
    calls = max(1, math.ceil(_SAMPLE_SECONDS / max(once, 1e-7)))
    ratios = []
    draw = random.Random(0)
    for _ in range(_ROUNDS):
        found = {name: _seconds(ways[name], calls) for name in draw.sample([*ways], 2)}
        ratios.append(found["torch"] / max(found["packed"], 1e-9))
    return statistics.median(ratios)


def _seconds(act: Callable[[], Tensor], calls: int) -> float:
    start = time.thread_time()
    for _ in range(calls):
        act()
    return time.thread_time() - start
