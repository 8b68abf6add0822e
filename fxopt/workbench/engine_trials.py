"""Is an engine faster than packed layers? Each one gets the whole graph, and the fastest keeps it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.fx import GraphModule

from fxopt.core import shared_copy
from fxopt.engines import RUNTIMES, EngineRegion
from fxopt.errors import remarks
from fxopt.evidence.latency import measure, measuring
from fxopt.evidence.latency_report import LatencyReport
from fxopt.evidence.numerics import NumericsReport, Original
from fxopt.passes import CompileRegions, DelegateRegions, PackConvolutions, PackLinears, PlanRegions
from fxopt.passes.regions import RegionPass
from fxopt.workbench.workbench import Workbench

Engine = Literal["inductor", "onnxruntime", "openvino", "fastest"]

FASTEST = "fastest"
ENGINES = ("inductor", *RUNTIMES)


def passes_for(engine: str | None) -> dict[str, RegionPass]:
    """Return the passes that hand the graph to an engine, by its name: all of them for the fastest."""
    asked = ENGINES if engine == FASTEST else ENGINES[:0] if engine is None else (engine,)
    return {one: DelegateRegions(one) if one in RUNTIMES else CompileRegions(backend=one) for one in asked}


@dataclass(frozen=True, eq=False)
class EngineTrial:
    """The graph in one engine, against that with packed layers; or the reason why it is not there, in `problem`."""

    engine: str
    problem: str = ""
    seconds: float | None = None
    """Of the set-up, on the wall."""
    numerics: NumericsReport | None = None
    """Against the captured graph."""
    latency: LatencyReport | None = None
    """A ratio above 1 means that the engine is faster."""

    @property
    def pays(self) -> bool:
        """Whether it is shown to be faster, with errors that rounding explains."""
        faster = self.latency is not None and self.latency.shown and self.latency.ratio > 1
        return faster and self.numerics is not None and self.numerics.fits is not False

    def __str__(self) -> str:
        if self.problem:
            return f"{self.engine}: {self.problem}"
        told = [f"{self.engine} against packed layers: {self.latency.verdict}" if self.latency is not None else ""]
        told += [f"outputs: {self.numerics.verdict}"] if self.numerics is not None else []
        return "; ".join([*filter(None, told), f"set up in {self.seconds:.1f} s"])


def keep_fastest(
    bench: Workbench,
    passes: Mapping[str, RegionPass],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    budget: float,
) -> tuple[EngineTrial, ...]:
    """Put the graph into the engine that is shown to be the fastest, in place of packed layers, if one is.

    Args:
        budget: seconds for the measurements of all engines, without their set-up.
    """
    packed, choices = shared_copy(bench.current), bench.choices
    original = Original(bench.pristine, [(args, kwargs)])
    trials: list[EngineTrial] = []
    best, kept = 1.0, choices
    for name, pass_ in passes.items():
        bench.choose(choices)
        problem = hand_over(bench, pass_)
        trial = (
            EngineTrial(name, problem)
            if problem
            else _trial(name, bench, packed, original, args, kwargs, budget / len(passes))
        )
        if trial.pays and trial.latency is not None and trial.latency.ratio > best:
            best, kept = trial.latency.ratio, bench.choices
        trials.append(trial)
    if bench.choices != kept:
        bench.choose(kept)
    return tuple(trials)


def hand_over(bench: Workbench, pass_: RegionPass) -> str:
    """Put the graph into an engine in place of packed layers; return the reason if it cannot be, and leave it then."""
    choices = bench.choices
    for one in (PlanRegions(), PackLinears(), PackConvolutions()):
        bench.turn_off(one)
    bench.turn_on(pass_)
    if pass_.sites_on(bench.current):
        return ""
    misses = pass_.scan(bench.current).misses
    bench.choose(choices)
    return str(misses[0]) if misses else "it finds no region of two calls"


def _trial(
    name: str,
    bench: Workbench,
    packed: GraphModule,
    original: Original,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    budget: float,
) -> EngineTrial:
    """Set up, judge and measure the graph as it is, with its region in an engine."""
    start = time.perf_counter()
    with remarks() as told:
        set_up(bench.current, args, kwargs)
    seconds = time.perf_counter() - start
    if told:
        return EngineTrial(name, told[0])
    with as_measured(bench.current):
        numerics = original.compare(bench.current)
    return EngineTrial(name, "", seconds, numerics, measure(packed, bench.current, args, kwargs, budget=budget))


@contextmanager
def as_measured(gm: GraphModule) -> Iterator[None]:
    """Within the block, call regions in engines with the threads and in the mode of a measurement, if there are any.

    They are set up for these, and would be once more for others.
    """
    if not _has_regions(gm):
        yield
        return
    with measuring(lambda: None), torch.inference_mode():
        yield


def set_up(gm: GraphModule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Set up the regions of `gm` in engines as a measurement calls them, of which the seconds for it are no part."""
    if _has_regions(gm):
        with as_measured(gm):
            gm(*args, **kwargs)


def _has_regions(gm: GraphModule) -> bool:
    return any(isinstance(module, EngineRegion) for module in gm.modules())
