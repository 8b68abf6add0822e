"""One call for a faster model: capture, the passes that may help, and the evidence."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from torch import Tensor, nn
from torch.fx import GraphModule

from fxopt.core import FxoptError, Pass
from fxopt.evidence.latency import LatencyReport, measure
from fxopt.evidence.numerics import NumericsReport, compare_outputs
from fxopt.passes import (
    FoldBatchNorm,
    FuseBatchNorm1dInLinear,
    FuseBatchNorm2dInConv2d,
    PackConvolutions,
    PackLinears,
    RemoveIdentities,
)
from fxopt.workbench.states import Choice, PassState
from fxopt.workbench.tuning import SiteTime, site_times
from fxopt.workbench.workbench import Workbench

Level = Literal["exact", "rounding"]

_PASSES: dict[str, tuple[type[Pass[Any]], ...]] = {
    "exact": (RemoveIdentities,),
    "rounding": (
        RemoveIdentities,
        FuseBatchNorm2dInConv2d,
        FuseBatchNorm1dInLinear,
        FoldBatchNorm,
        PackLinears,
        PackConvolutions,
    ),
}
"""The passes of each level, in the order in which they run: what removes and folds comes before what packs."""


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
    """The sites that were left out, because they were measured to be slower."""
    numerics: NumericsReport
    latency: LatencyReport | None
    seconds: float

    def __str__(self) -> str:
        lines = [f"level {self.level}: {self._sites} sites rewritten in {self.seconds:.1f} s"]
        for state in self.states:
            if state.sites or state.misses:
                left = f", {len(state.misses)} left alone" if state.misses else ""
                lines.append(f"  {state.name}: {state.sites_on} of {len(state.sites)} sites{left}")
        lines += [f"  left out: {one}" for one in self.slower]
        lines.append(f"outputs: {self.numerics.verdict}")
        if self.latency is not None:
            lines.append(f"latency: {self.latency.verdict}, in CPU time of one thread on {self.latency.machine}")
        if self.latency is not None and not self._sites:
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
    measured: bool = True,
    budget: float = 10.0,
) -> Optimized:
    """Return a faster graph module of `model` for inference, a report of what was done, and the choices that replay.

    Args:
        model: in evaluation mode; it is never changed. Or a graph module that was captured before.
        inputs: an example: a tuple of positional arguments, a mapping of keyword arguments, or one tensor.
        level: ``"exact"`` keeps every bit; ``"rounding"`` computes the same function over the real numbers.
        choices: of an earlier call with this level, to be replayed; nothing is timed to make them.
        measured: whether sites are timed on this machine, so that the slower ones are left out, and then the whole: if
            it is slower for certain, nothing is rewritten.
        budget: the seconds that the measurement of the whole may take.

    Raises:
        fxopt.CaptureError: the model cannot be captured.
        FxoptError: `level` is unknown, or the choices are of other passes.

    >>> import torch, fxopt
    >>> model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU()).eval()
    >>> module, report, choices = fxopt.optimize(model, torch.rand(1, 3, 8, 8), measured=False)
    >>> [node.name for node in module.graph.nodes]
    ['input_1', '_0', 'output']
    >>> report.numerics.fits
    True
    """
    if level not in _PASSES:
        raise FxoptError(f"there is no level {level!r}; give one of {', '.join(_PASSES)}")
    start = time.perf_counter()
    args, kwargs = _arguments(inputs)
    passes = [kind() for kind in _PASSES[level]]
    given = () if isinstance(model, GraphModule) else (args, kwargs)
    bench = Workbench(model, *given, passes=passes)
    slower: tuple[SiteTime, ...] = ()
    if choices is not None:
        bench.choose(choices)
    else:
        for pass_ in passes:
            bench.turn_on(pass_)
        if measured and level != "exact":
            slower = tuple(one for one in site_times(bench.current, args, kwargs) if one.is_slower)
            if slower:
                bench.turn_off(PackLinears(), [name for one in slower for name in one.sites])
    seconds = time.perf_counter() - start
    numerics = compare_outputs(bench.pristine, bench.current, [(args, kwargs)])
    latency = measure(bench.pristine, bench.current, args, kwargs, budget=budget) if measured else None
    if choices is None and latency is not None and latency.shown and latency.ratio < 1:
        bench.reverse_all()
    report = OptimizeReport(level, bench.states, slower, numerics, latency, seconds)
    return Optimized(bench.current, report, bench.choices)


def _arguments(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    return ((inputs,) if isinstance(inputs, Tensor) else tuple(inputs)), {}
