"""Is an engine faster than packed layers? Each one gets the whole graph, and the fastest keeps it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch.fx import GraphModule

from fxopt.core import shared_copy
from fxopt.engines import RUNTIMES, EngineRegion, PlannedRegion
from fxopt.errors import remarks
from fxopt.evidence.latency import measure, measuring
from fxopt.evidence.latency_report import LatencyReport
from fxopt.evidence.numerics import NumericsReport, Original
from fxopt.evidence.running import copied
from fxopt.passes import (
    CastLinearsToBFloat16,
    CompileRegions,
    DelegateRegions,
    PackConvolutions,
    PackLinears,
    PlanRegions,
    QuantizeLinears,
)
from fxopt.passes.regions import RegionPass
from fxopt.workbench.workbench import Workbench

Engine = Literal["inductor", "onnxruntime", "openvino", "fastest"]

FASTEST = "fastest"
ENGINES = ("inductor", *RUNTIMES)

_REPLACED = (PlanRegions, PackLinears, PackConvolutions, CastLinearsToBFloat16, QuantizeLinears)
"""The passes whose work an engine does in its own way: it computes the layers of the model, in float32."""


def passes_for(engine: str | None) -> dict[str, RegionPass]:
    """Return the passes that hand the graph to an engine, by its name: all of them for the fastest."""
    asked = ENGINES if engine == FASTEST else ENGINES[:0] if engine is None else (engine,)
    return {one: DelegateRegions(one) if one in RUNTIMES else CompileRegions(backend=one) for one in asked}


@dataclass(frozen=True, eq=False)
class EngineTrial:
    """The graph in one engine, against that without; or the reason why it is not there, in `problem`."""

    engine: str
    problem: str = ""
    """The reason why the engine did not compute the graph, though it was asked to; then there is nothing else here."""
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
            return f"{self.engine} does not compute the graph: {self.problem}"
        told = [f"{self.engine} against the graph without: {self.latency.verdict}"] if self.latency is not None else []
        told += [f"outputs: {self.numerics.verdict}"] if self.numerics is not None else []
        return "; ".join([*(told or [self.engine]), f"set up in {self.seconds:.1f} s"])


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
        trial = hand_over(name, bench, pass_, original, args, kwargs)
        if not trial.problem:
            latency = measure(packed, bench.current, args, kwargs, budget=budget / len(passes))
            problem = by_hand(bench.current)
            trial = EngineTrial(name, problem) if problem else replace(trial, latency=latency)
        if trial.pays and trial.latency is not None and trial.latency.ratio > best:
            best, kept = trial.latency.ratio, bench.choices
        trials.append(trial)
    if bench.choices != kept:
        bench.choose(kept)
    return tuple(trials)


def hand_over(
    name: str,
    bench: Workbench,
    pass_: RegionPass,
    original: Original,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> EngineTrial:
    """Put the graph into an engine in place of packed layers, set it up, and judge its outputs.

    Where the engine does not compute it, the reason is told, and packed layers stay.
    """
    choices = bench.choices
    for one in [one for kind in _REPLACED for one in bench.passes if isinstance(one, kind)]:
        bench.turn_off(one)
    bench.turn_on(pass_)
    if not pass_.sites_on(bench.current):
        misses = pass_.scan(bench.current).misses
        problem = str(misses[0]) if misses else "it finds no region of two calls"
        bench.choose(choices)
        return EngineTrial(name, problem)
    start = time.perf_counter()
    with remarks() as told:
        set_up(bench.current, args, kwargs)
        seconds = time.perf_counter() - start
        with as_measured(bench.current):
            numerics = original.compare(bench.current)
    problem = told[0] if told else by_hand(bench.current)
    if problem:
        bench.choose(choices)
        return EngineTrial(name, problem)
    return EngineTrial(name, "", seconds, numerics)


def by_hand(gm: GraphModule) -> str:
    """Return the reason why a region of `gm` was not computed by its engine at its last call; empty if all were."""
    return next((one.by_hand for one in _handed_over(gm) if one.by_hand), "")


def engine_of(gm: GraphModule) -> str:
    """Return the names of the engines that computed regions of `gm` at their last calls; empty if there is none."""
    return " and ".join(dict.fromkeys(one.engine for one in _handed_over(gm) if not one.by_hand))


@contextmanager
def as_measured(gm: GraphModule) -> Iterator[None]:
    """Within the block, call regions in engines with the threads and in the mode of a measurement, if there are any.

    They are set up for these, and would be once more for others.
    """
    if not _regions_of(gm):
        yield
        return
    with measuring(lambda: None), torch.inference_mode():
        yield


def set_up(gm: GraphModule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Set up the regions of `gm` in engines as a measurement calls them, of which the seconds for it are no part."""
    if _regions_of(gm):
        args, kwargs = copied((args, kwargs))  # a graph may write to its inputs
        with as_measured(gm):
            gm(*args, **kwargs)


def _regions_of(gm: GraphModule) -> list[EngineRegion]:
    return [module for module in gm.modules() if isinstance(module, EngineRegion)]


def _handed_over(gm: GraphModule) -> list[EngineRegion]:
    """Return the regions that engines outside this package compute: all but those with a plan."""
    return [one for one in _regions_of(gm) if not isinstance(one, PlannedRegion)]
