"""What one would pick instead: the original in `torch.compile`, ONNX Runtime and OpenVINO, where they are installed.

Each engine is set up, judged on the example, and measured against the original, as a graph with passes is: in pairs, in
random order, in CPU time of one thread. Whatever an engine cannot do is a row with the reason.
"""

from __future__ import annotations

import enum
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn
from torch.fx import GraphModule

from fxopt.engines.flat import CONSTANTS, Flat
from fxopt.engines.whole import ENGINES, Engine, InEngine
from fxopt.errors import ArgumentError, remarks
from fxopt.evidence.latency import Progress, measure, measuring
from fxopt.evidence.latency_report import FEWEST_ROUNDS, LatencyReport
from fxopt.evidence.numerics import NumericsReport, Original
from fxopt.evidence.running import copied
from fxopt.tracing.installed_checks import without_checks
from fxopt.tracing.replay import first_line
from fxopt.tracing.structure import dismantle, filled, tensors_of, whole_parts_of

_WITHOUT_TENSORS = (*CONSTANTS, enum.Enum, type, torch.memory_format, torch.layout)
_COLUMNS = ("model in", "verdict", "ratio", "low", "high", "ms", "set-up s", "max abs error", "error")


@dataclass(frozen=True)
class EngineRow:
    """The original in one engine, or the reason why there is no such row in `problem`."""

    name: str
    setup_seconds: float | None = None
    """On the wall: the export, the compilation, and the first call."""
    numerics: NumericsReport | None = None
    """Against the original, on the example."""
    latency: LatencyReport | None = None
    """Against the original; a ratio above 1 means that the engine is faster."""
    problem: str = ""

    @property
    def max_abs(self) -> float | None:
        """The largest error of all outputs; None where they cannot be compared."""
        outputs = self.numerics.outputs if self.numerics is not None and self.numerics.failure is None else ()
        found = [one.difference.max_abs for one in outputs if one.difference is not None]
        return max(found) if found else None

    @property
    def verdict(self) -> str:
        """The answer in words: the latency, or the reason why there is none."""
        return self.problem or (self.latency.verdict if self.latency is not None else "not measured")


@dataclass(frozen=True)
class EnginesReport:
    """A row for each engine, in the order of the question."""

    rows: tuple[EngineRow, ...]
    stopped: str | None = None
    """The reason for an early end, if it ended early."""

    def __repr__(self) -> str:
        return f"EnginesReport({self.verdict})"

    @property
    def verdict(self) -> str:
        """The engine that is fastest, in a sentence."""
        shown = [(one.latency.ratio, one) for one in self.rows if one.latency is not None and one.latency.shown]
        faster = [(ratio, one) for ratio, one in shown if ratio > 1]
        if faster:
            _, best = max(faster, key=lambda pair: pair[0])
            return f"{best.name} is the fastest of {self._measured}: {best.verdict}"
        if not self._measured:
            return "no engine could be measured"
        return f"none of {self._measured} is shown to be faster than the original"

    @property
    def _measured(self) -> int:
        return sum(one.latency is not None and len(one.latency.rounds) >= FEWEST_ROUNDS for one in self.rows)

    @property
    def frame(self) -> pd.DataFrame:
        """A row for each engine; times in milliseconds of CPU for one call, the set-up in seconds on the wall."""
        return pd.DataFrame([_cells(one) for one in self.rows], columns=_COLUMNS)


def _cells(row: EngineRow) -> tuple[Any, ...]:
    latency = row.latency if row.latency is not None and row.latency.rounds else None
    figures = (latency.ratio, latency.low, latency.high, latency.after_ms) if latency is not None else (None,) * 4
    error = row.numerics.verdict if row.numerics is not None else None
    return row.name, row.verdict, *figures, row.setup_seconds, row.max_abs, error


def compare_engines(
    gm: GraphModule,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    engines: Sequence[str] | None = None,
    rounds: int = 15,
    budget: float = 60.0,
    reference: bool = True,
    on_progress: Progress | None = None,
) -> EnginesReport:
    """Measure a graph as engines compute it against the graph itself, on the same inputs.

    `torch.compile` has weights that are frozen. Engines compute at the precision of the graph, on one thread. They get
    the graph by `torch.export` with the sizes of the example. OpenVINO is imported without its telemetry.

    Args:
        gm: the original, in evaluation mode. It is not changed, and neither are the inputs.
        engines: by name: "torch.compile", "ONNX Runtime", "OpenVINO"; all of them if left out.
        rounds: see `measure`.
        budget: seconds for the rounds of each engine, without its set-up, whose time nothing bounds.
        reference: judge errors by the original in float64, which takes twice its memory.
        on_progress: is told the share that is done; it ends the work by returning False, between two steps of a set-up.

    Raises:
        ArgumentError: there is no such engine.
        EvidenceError: the original fails.
    """
    by_name = {one.name: one for one in ENGINES}
    names = list(by_name) if engines is None else list(engines)
    for name in names:
        if name not in by_name:
            raise ArgumentError(f"no engine {name!r}; give some of {', '.join(by_name)}")
    told = on_progress or (lambda share: None)
    bench = _Bench(gm, args, kwargs or {}, rounds, budget, reference)
    rows: list[EngineRow] = []
    for number, name in enumerate(names):

        def share(done: float, number: int = number) -> bool | None:
            return told((number + done) / len(names))

        if share(0.0) is False:
            return EnginesReport(tuple(rows), "cancelled")
        row = bench.row(by_name[name], share)
        if row is None or (row.latency is not None and row.latency.cancelled):
            return EnginesReport(tuple(rows), "cancelled")
        rows.append(row)
    told(1.0)
    return EnginesReport(tuple(rows))


def _reason_of(error: BaseException) -> str:
    """Return the kind of an error and its reason in a line: that of its first cause, or OpenVINO's summary."""
    while error.__cause__ is not None:
        error = error.__cause__
    _, _, summary = str(error).partition("\nSummary:")
    reason = "; ".join(line.strip("- ") for line in summary.strip().splitlines()) or first_line(error)
    return f"{type(error).__name__}: {reason}"


class OfTensors(nn.Module):
    """Compute a model for the tensors among its inputs, and return those among its outputs.

    Those in a cache, or another object, are among them: its class and its other attributes are those of the example.

    Raises:
        TypeError: an input holds a value that may hide tensors.
    """

    def __init__(self, model: GraphModule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__()
        self.model = model
        self.skeleton, _ = dismantle((args, kwargs))
        names = [str(node.target) for node in model.graph.find_nodes(op="placeholder")]
        for name, value in {**dict(zip(names, args)), **kwargs}.items():
            strange = next((one for one in whole_parts_of(value) if not isinstance(one, _WITHOUT_TENSORS)), None)
            if strange is not None:
                raise TypeError(
                    f"the input {name} holds a {type(strange).__name__}, whose tensors torch does not see; "
                    "hold them in tuples, lists, dicts or objects with attributes"
                )

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        args, kwargs = filled(self.skeleton, tensors)
        return tuple(tensors_of(self.model(*args, **kwargs)))


class _Bench:
    """The original with its inputs."""

    def __init__(
        self, gm: GraphModule, args: tuple[Any, ...], kwargs: dict[str, Any], rounds: int, budget: float, judged: bool
    ) -> None:
        self.graph = without_checks(gm)
        self.args, self.kwargs = args, kwargs
        self._rounds, self._budget, self._judged = rounds, budget, judged
        self._flat: Flat | None = None
        self._original: Original | None = None

    def row(self, engine: Engine, share: Progress) -> EngineRow | None:
        """Return the row of an engine, or None if the work is to end."""
        if engine.missing:
            return EngineRow(engine.name, problem=engine.missing)
        try:
            flat, original = self._prepared()
        except TypeError as error:
            return EngineRow(engine.name, problem=str(error))
        tensors = copied(tuple(tensors_of((self.args, self.kwargs))))
        with measuring(lambda: share(0.0)) as is_wanted, remarks():
            if not is_wanted:
                return None
            try:
                with torch.inference_mode(), warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # engines warn of their own doings
                    start = time.perf_counter()
                    call = engine.build(flat, tensors)
                    call(*tensors)
                    seconds = time.perf_counter() - start
            except Exception as error:  # noqa: BLE001 - an engine may fail in any way; the row says how
                return EngineRow(engine.name, problem=_reason_of(error))
            if share(0.5) is False:
                return None
            with torch.inference_mode():  # the mode that it was compiled for
                numerics = original.compare(InEngine(call).eval())
        if numerics.failure is not None:
            return EngineRow(engine.name, seconds, problem=numerics.failure)
        made = InEngine(call, tensors_of).eval()
        latency = measure(self.graph, made, self.args, self.kwargs, rounds=self._rounds, budget=self._budget,
                          on_progress=lambda done: share(0.5 + done / 2))  # fmt: skip
        return EngineRow(engine.name, seconds, numerics, latency)

    def _prepared(self) -> tuple[Flat, Original]:
        if self._flat is None or self._original is None:
            tensors = tuple(tensors_of((self.args, self.kwargs)))
            self._flat = Flat(OfTensors(self.graph, self.args, self.kwargs), tensors, {}).eval()
            self._original = Original(self._flat, [(tensors, {})], reference=self._judged)
        return self._flat, self._original
