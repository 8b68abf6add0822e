"""One call for a faster model: capture, the passes that may help, and the evidence."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from torch import nn
from torch.fx import GraphModule

from fxopt.core import FxoptError, Pass, shared_copy
from fxopt.errors import expect_model
from fxopt.evidence.latency import measure
from fxopt.evidence.latency_report import LatencyReport
from fxopt.evidence.numerics import NumericsReport, Original
from fxopt.models import as_inputs
from fxopt.packed import PackedLayer
from fxopt.passes import (
    CastLinearsToBFloat16,
    ChangeAddmmToLinear,
    FoldBatchNorm,
    FoldConstants,
    FuseAttention,
    FuseBatchNorm1dInLinear,
    FuseBatchNorm2dInConv2d,
    FuseGelu,
    FuseRMSNorm,
    MergeLinears,
    PackConvolutions,
    PackLinears,
    PlanRegions,
    RemoveIdentities,
    ShareCommonSubexpressions,
)
from fxopt.passes.packing import LayerToPack
from fxopt.workbench.autotuning import Tuning
from fxopt.workbench.autotuning import autotune as tuned
from fxopt.workbench.engine_trials import (
    ENGINES,
    FASTEST,
    Engine,
    EngineTrial,
    as_measured,
    by_hand,
    engine_of,
    hand_over,
    keep_fastest,
    passes_for,
    set_up,
)
from fxopt.workbench.states import Choice, PassState
from fxopt.workbench.tuning import SiteTime, not_faster, packing_times
from fxopt.workbench.workbench import Workbench

Level = Literal["exact", "rounding", "approximate"]

_EXACT = (RemoveIdentities, ShareCommonSubexpressions, FoldConstants)
_ROUNDING = (
    FuseBatchNorm2dInConv2d,
    FuseBatchNorm1dInLinear,
    FoldBatchNorm,
    FuseGelu,
    FuseRMSNorm,
    FuseAttention,
    ChangeAddmmToLinear,
    MergeLinears,
)
_PACKING = (PackLinears, PackConvolutions)
_PASSES: dict[str, tuple[type[Pass[Any]], ...]] = {
    "exact": _EXACT,
    "rounding": (*_EXACT, *_ROUNDING, *_PACKING),
    "approximate": (*_EXACT, *_ROUNDING, CastLinearsToBFloat16, *_PACKING),
}
"""The passes of each level, in the order in which they run: those that remove and fold come before those that pack."""


_FEWEST_TO_PLAN = 8
"""So many packed layers a graph has to have: with fewer, a plan saves next to nothing."""


class Optimized(NamedTuple):
    """The result of `optimize`."""

    module: GraphModule
    """Call it under ``torch.inference_mode()``. Its passes reverse, each by itself or all by a `Workbench`."""
    report: OptimizeReport
    choices: tuple[Choice, ...]
    """For ``optimize(model, inputs, level=..., choices=choices)``, which makes the same graph again."""


@dataclass(frozen=True, eq=False)
class OptimizeReport:
    """The passes with their sites, the error, and the latency against the captured model."""

    level: str
    states: tuple[PassState, ...]
    slower: tuple[SiteTime, ...]
    """The packed layers that were left out, because they were measured to be slower."""
    merging: LatencyReport | None
    """The graph with `MergeLinears` against that without, all else the same, if it was measured; a slower one is left
    out."""
    numerics: NumericsReport
    latency: LatencyReport | None
    seconds: float
    planning: LatencyReport | None = None
    """The graph with `PlanRegions` against that without, if it was measured; kept where its interval lies above 1."""
    engines: tuple[EngineTrial, ...] = ()
    """The graph in each engine against that without, where engines were asked for; the fastest is kept."""
    tuning: Tuning | None = None
    """The decision on the sites of each pass, with its evidence, where `autotune` was asked for."""
    engine: str = ""
    """The engine that computed the graph for the inputs; empty where torch calls its nodes."""
    by_hand: str = ""
    """The reason why a region of the graph that is meant for an engine was computed node by node, where one was."""
    convolutions: LatencyReport | None = None
    """The graph with `PackConvolutions`, where it is slower than the original, so that the pass is left out."""

    def __str__(self) -> str:
        lines = [f"level {self.level}: {self._sites} sites rewritten in {self.seconds:.1f} s"]
        for state in self.states:
            if state.sites or state.misses:
                left = f", {len(state.misses)} left alone" if state.misses else ""
                lines.append(f"  {state.name}: {state.sites_on} of {len(state.sites)} sites{left}")
        lines += [f"  left out: {one}" for one in self.slower]
        lines += [f"  {one}" for one in self.tuning.sites] if self.tuning is not None else []
        if self.merging is not None and not self.merging.rounds:
            lines.append("  no time was left to measure MergeLinears, which stays")
        elif self.merging is not None and self.merging.ratio < 1:
            lines.append(f"  left out: MergeLinears makes it {1 / self.merging.ratio:.2f}x slower")
        if self.convolutions is not None:
            lines.append(f"  left out: PackConvolutions, with which it is {1 / self.convolutions.ratio:.2f}x slower")
        if self.planning is not None and not _is_faster(self.planning):
            lines.append(f"  left out: PlanRegions, which is not measured to be faster ({self.planning.verdict})")
        lines += [f"  {one}" for one in self.engines]
        if self.engine:
            lines.append(f"computed by {self.engine}")
        elif self.engines or self.by_hand:
            lines.append("computed by torch, by no engine" + (f": {self.by_hand}" if self.by_hand else ""))
        lines.append(f"outputs: {self.numerics.verdict}")
        if self.latency is not None:
            lines.append(f"latency: {self.latency.verdict}, in CPU time of one thread on {self.latency.machine}")
        if _is_slower(self.latency) and not self._sites:
            lines.append("nothing is faster, so the graph is as it was captured")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        return f"```\n{self}\n```"

    @property
    def _sites(self) -> int:
        return sum(state.sites_on for state in self.states)


def optimize(
    model: nn.Module,
    inputs: Any = (),
    *,
    level: Level = "rounding",
    choices: tuple[Choice, ...] | None = None,
    engine: Engine | None = None,
    autotune: bool = False,
    measured: bool = True,
    budget: float = 10.0,
) -> Optimized:
    """Return a faster graph module of `model` for inference, a report of the work, and the choices that replay.

    Args:
        model: in evaluation mode; it is never changed. Or a graph module that was captured before.
        inputs: an example: a tuple of positional arguments, a mapping of keyword arguments, or one tensor.
        level: ``"exact"`` keeps every bit; ``"rounding"`` computes the same function over the real numbers;
            ``"approximate"`` has linear layers multiply in bfloat16 as well (`CastLinearsToBFloat16`), where that is
            faster than packed in float32: the report tells the error for these inputs, usually 0.1 to 1 % of the
            largest output.
        choices: of an earlier call with this level and engine, to be replayed; nothing is timed to make them.
        engine: ``"inductor"``, ``"onnxruntime"`` or ``"openvino"`` may compute the whole graph as one call
            (`CompileRegions`, `DelegateRegions`) in place of packed layers, if that is shown to be faster, or nothing
            is `measured`. ``"fastest"`` tries all three and keeps the fastest. It takes seconds, and the package of the
            engine, or a C++ compiler.
        autotune: judge the sites of every pass by the times of their nodes with and without them, and keep only those
            that pay (`fxopt.workbench.autotuning`), in place of the choices that `measured` makes.
        measured: whether the work is timed on this machine: with and without `MergeLinears`, then each kind of packed
            layer, so that the slower is left out, then with and without `PlanRegions`, and then the whole: if it is
            slower for certain, once more without `PackConvolutions`, and if it still is, nothing is rewritten.
        budget: the seconds that the measurement of the whole may take; the choices before it may take as long.

    Raises:
        fxopt.CaptureError: the model cannot be captured.
        FxoptError: `level` is unknown, the choices are of other passes, or the inputs are no example.

    >>> import torch, fxopt
    >>> model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU()).eval()
    >>> module, report, choices = fxopt.optimize(model, torch.rand(1, 3, 8, 8), measured=False)
    >>> [node.name for node in module.graph.nodes]
    ['input_1', '_0', 'output']
    >>> report.numerics.fits
    True
    """
    _expect_arguments(model, level, engine, autotune=autotune, measured=measured, replays=choices is not None)
    start = time.perf_counter()
    args, kwargs = as_inputs(inputs)
    passes = [kind() for kind in _PASSES[level]]
    planning = [PlanRegions()] if level != "exact" else []
    handing = passes_for(engine)
    given = () if isinstance(model, GraphModule) else (args, kwargs)
    bench = Workbench(model, *given, passes=[*passes, *planning, *handing.values()])
    slower: tuple[SiteTime, ...] = ()
    merging: LatencyReport | None = None
    planned: LatencyReport | None = None
    trials: tuple[EngineTrial, ...] = ()
    tuning: Tuning | None = None
    if choices is not None:
        bench.choose(choices)
    else:
        for pass_ in passes:
            bench.turn_on(pass_)
        if autotune:
            tuning = tuned(bench, args, kwargs, budget=budget)
            bench.choose(tuning.choices)
        elif measured and level != "exact":
            merging = _merge_if_faster(bench, args, kwargs, budget / 2)
            slower = _pack_if_faster(bench, args, kwargs, budget / 2)
        if planning and measured:
            planned = _plan_if_faster(bench, args, kwargs, budget / 2)
        if handing and measured:
            trials = keep_fastest(bench, handing, args, kwargs, budget)
        elif handing:
            judge = Original(bench.pristine, [(args, kwargs)])
            trials = tuple(hand_over(name, bench, one, judge, args, kwargs) for name, one in handing.items())
    seconds = time.perf_counter() - start
    original = Original(bench.pristine, [(args, kwargs)])

    def judged() -> tuple[NumericsReport, LatencyReport | None]:
        with as_measured(bench.current):
            numerics = original.compare(bench.current)
        if not measured:
            return numerics, None
        set_up(bench.current, args, kwargs)
        return numerics, measure(bench.pristine, bench.current, args, kwargs, budget=budget)

    numerics, latency = judged()
    convolutions: LatencyReport | None = None
    if choices is None and _is_slower(latency) and _leaves_out_convolutions(bench):
        convolutions = latency
        numerics, latency = judged()
    if choices is None and _is_slower(latency):
        bench.reverse_all()
    engine_told = engine_of(bench.current), by_hand(bench.current)
    report = OptimizeReport(
        level,
        bench.states,
        slower,
        merging,
        numerics,
        latency,
        seconds,
        planned,
        trials,
        tuning,
        *engine_told,
        convolutions,
    )
    return Optimized(bench.current, report, bench.choices)


def _expect_arguments(
    model: nn.Module, level: str, engine: str | None, *, autotune: bool, measured: bool, replays: bool
) -> None:
    """Raise `FxoptError` for arguments of `optimize` that are unknown or contradict each other."""
    expect_model(model, "fxopt.optimize")
    if model.training:
        raise FxoptError(f"{type(model).__name__} is in training mode, and optimize is for inference: model.eval()")
    if level not in _PASSES:
        raise FxoptError(f"there is no level {level!r}; give one of {', '.join(_PASSES)}")
    if engine not in (None, FASTEST, *ENGINES):
        raise FxoptError(f"there is no engine {engine!r}; give {', '.join(ENGINES)} or {FASTEST}, or leave engine out")
    if engine == FASTEST and not (replays or measured):
        raise FxoptError("engine='fastest' measures to find it: leave measured out, or name the engine")
    if engine is not None and (level == "exact" or autotune):
        reason = (
            "an engine rounds: give level='rounding'" if level == "exact" else "autotune judges nodes: leave it out"
        )
        raise FxoptError(f"engine={engine!r} computes the graph as one call, and {reason}")
    if autotune and (replays or not measured):
        raise FxoptError("autotune measures to make the choices: leave choices and measured out")


def _is_slower(latency: LatencyReport | None) -> bool:
    return latency is not None and latency.shown and latency.ratio < 1


def _leaves_out_convolutions(bench: Workbench) -> bool:
    """Turn `PackConvolutions` off, and the plan that rests on it; return whether it was on."""
    if not any(state.sites_on for state in bench.states if state.name == PackConvolutions.__name__):
        return False
    for pass_ in (PlanRegions(), PackConvolutions()):
        bench.turn_off(pass_)
    return True


def _merge_if_faster(
    bench: Workbench, args: tuple[Any, ...], kwargs: dict[str, Any], budget: float
) -> LatencyReport | None:
    """Turn `MergeLinears` off where the graph was measured to be slower with it."""
    if not any(state.sites_on for state in bench.states if state.name == MergeLinears.__name__):
        return None
    merged = shared_copy(bench.current)
    bench.turn_off(MergeLinears())
    report = measure(bench.current, merged, args, kwargs, budget=budget)
    if not report.rounds or report.ratio >= 1:
        bench.turn_on(MergeLinears())
    return report


def _pack_if_faster(
    bench: Workbench, args: tuple[Any, ...], kwargs: dict[str, Any], budget: float
) -> tuple[SiteTime, ...]:
    """Turn off the linears that do not pay, and return them.

    In their own dtype, they do not where they are slower packed than before. In bfloat16, which costs precision, they
    do not where they are no faster than before, or than packed in their own dtype.
    """
    packing, casting = PackLinears(), CastLinearsToBFloat16()
    asked = {state.name for state in bench.states}
    linears = [one for one in (casting, packing) if one.name in asked]
    for pass_ in linears:
        bench.turn_off(pass_)
    plain = shared_copy(bench.current)

    def times(pass_: Pass[LayerToPack]) -> list[SiteTime]:
        bench.turn_on(pass_)
        return packing_times(pass_, plain, bench.current, args, kwargs, budget=budget / len(linears))

    packed = times(packing)
    left: list[SiteTime] = []
    if casting in linears:
        bench.turn_off(packing)
        left = not_faster(times(casting), packed, "packed in float32")
        _turn_off(bench, casting, left)
        bench.turn_on(packing)
    here = {state.site for state in bench.state_of(packing).sites}
    slower = [replace(one, sites=sites) for one in packed if one.is_slower and (sites := one.sites_in(here))]
    _turn_off(bench, packing, slower)
    return (*left, *slower)


def _turn_off(bench: Workbench, pass_: Pass[LayerToPack], times: list[SiteTime]) -> None:
    if times:
        bench.turn_off(pass_, [name for one in times for name in one.sites])


def _plan_if_faster(
    bench: Workbench, args: tuple[Any, ...], kwargs: dict[str, Any], budget: float
) -> LatencyReport | None:
    """Turn `PlanRegions` on where the graph is measured to be faster with it."""
    if sum(isinstance(module, PackedLayer) for module in bench.current.modules()) < _FEWEST_TO_PLAN:
        return None
    node_by_node = shared_copy(bench.current)
    bench.turn_on(PlanRegions())
    if not PlanRegions().sites_on(bench.current):
        return None
    set_up(bench.current, args, kwargs)
    report = measure(node_by_node, bench.current, args, kwargs, budget=budget)
    if not _is_faster(report):
        bench.turn_off(PlanRegions())
    return report


def _is_faster(report: LatencyReport) -> bool:
    """Check that the interval lies above 1: enough for a choice, though a claim takes a quiet control as well."""
    return report.low > 1
