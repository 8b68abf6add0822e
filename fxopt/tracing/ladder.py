"""`capture`: from a model to a graph module, by the first way that works."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule
from torch.nn.parameter import is_lazy

from fxopt.errors import expect, expect_model
from fxopt.process.one_at_a_time import one_at_a_time
from fxopt.tracing.assemble import partial_graph_module_of
from fxopt.tracing.budget import BudgetError
from fxopt.tracing.inputs import Inputs, bind
from fxopt.tracing.installed_checks import install_checks
from fxopt.tracing.leaves import Leaves, leaf_predicate
from fxopt.tracing.lines import at
from fxopt.tracing.parameter_names import hidden_in
from fxopt.tracing.propagate import fill_in_shapes
from fxopt.tracing.remedies import is_data_dependent, line_of, reason_of, remedies_for
from fxopt.tracing.replay import RunResult, first_line, run_result
from fxopt.tracing.report import (
    CaptureCancelledError,
    CaptureError,
    CaptureReport,
    ExampleRefusedError,
    FailedRung,
    RecordingError,
)
from fxopt.tracing.rungs import Rungs, described, in_example
from fxopt.tracing.shadowed import refuse_shadowed_methods
from fxopt.tracing.sizes import Dynamic, check_dynamic
from fxopt.tracing.verify import verified

Progress = Callable[[str], bool | None]


def capture(
    model: nn.Module,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic: Dynamic = "auto",
    leaf: Leaves | None = None,
    budget: float = 60.0,
    allow_baked: bool = False,
    verify: bool = True,
    progress: Progress | None = None,
) -> GraphModule:
    """Capture `model` as a graph of its leaf modules and of torch functions.

    `args` and `kwargs` are an example call. The graph module takes the same calls, at other sizes if they are free;
    ``gm.meta["fxopt"]`` is the `CaptureReport`. The model stays unchanged, and shares its leaf modules and tensors. A
    model that is a graph module already is returned as it is, with shapes filled in.

    The ways, in order: torch.fx itself for plain modules; a recording with symbolic sizes; with the
    example's sizes; and, on request, with real values.

    >>> import torch
    >>> gm = capture(nn.Sequential(nn.Linear(8, 4), nn.ReLU()), [torch.zeros(2, 8)])
    >>> [node.name for node in gm.graph.nodes]
    ['input_1', '_0', '_1', 'output']
    >>> gm.meta["fxopt"].free
    {'batch': 'size 0 of input'}

    Args:
        dynamic: the sizes to keep free: ``"auto"`` (the batch, and the second of two or three
            dimensions), ``"all"``, ``"none"``, or dimensions by input: ``{"input_ids": [0, 1]}``.
        leaf: modules to keep whole besides the layers of torch: classes, modules, paths, or a predicate
            of module and path.
        budget: seconds of CPU time for the symbolic way. After that only the batch is kept free, within half of
            them; then all sizes are fixed.
        allow_baked: take, as a last resort, a graph in which values of the example are constants: ``if x.sum() > 0``
            then always goes the example's way.
        verify: replay the graph against the model, at the example and at other sizes.
        progress: is told each stage in a few words, and twice a second how far a recording is; where it
            returns False, the capture ends.

    Raises:
        CaptureError: every way failed; the message says why for each, and gives remedies.
        CaptureCancelledError: `progress` returned False.
        InputError: the example misfits the model, or `dynamic` the example.
    """
    expect_model(model, "fxopt.capture")
    _check_example(args, kwargs)
    refuse_shadowed_methods(model)
    inputs = bind(model, args, kwargs or {})
    check_dynamic(dynamic, inputs)

    def tell(stage: str) -> None:
        if progress is not None and progress(stage) is False:
            raise CaptureCancelledError(f"the capture of {type(model).__name__} was cancelled at: {stage}")

    def waiting() -> None:
        tell("waiting for another model")

    if isinstance(model, GraphModule):
        with one_at_a_time(waiting):
            return _as_given(model, inputs, dynamic)
    _refuse_what_no_graph_can_hold(model)
    rungs = Rungs(model, inputs, dynamic, leaf_predicate(leaf), budget, tell)
    with one_at_a_time(waiting):
        return _climb(rungs, allow_baked, verify)


def _check_example(args: Any, kwargs: Any) -> None:
    call, takes = "fxopt.capture(model, args)", "the positional arguments as a tuple or list"
    remedy = "write [x] for one tensor x" if isinstance(args, torch.Tensor) else ""
    remedy = "give keyword arguments as kwargs=" if isinstance(args, Mapping) else remedy
    expect(args, tuple | list, call, takes, remedy)
    expect(kwargs, Mapping | None, "fxopt.capture(model, args, kwargs)", "the keyword arguments as a dict")


def _refuse_what_no_graph_can_hold(model: nn.Module) -> None:
    for name, parameter in (*model.named_parameters(), *model.named_buffers()):
        if is_lazy(parameter):
            subject = f"{name} of {type(model).__name__} has no shape yet, and a capture must not give it one:"
            raise CaptureError(subject, remedies=("run the model once on the example",))
        if parameter.is_nested:
            subject = f"{name} of {type(model).__name__} is a nested tensor, which torch neither copies nor compares:"
            raise CaptureError(subject, remedies=("keep its parts padded in one tensor, or each under its own name",))
    if any(map(torch.is_autocast_enabled, ("cpu", "cuda"))):
        subject = "an autocast region around the capture would not be part of the graph:"
        raise CaptureError(subject, remedies=("capture outside of it, with a model that enters it in forward",))


def _as_given(gm: GraphModule, inputs: Inputs, dynamic: Dynamic) -> GraphModule:
    if isinstance(gm.meta.get("fxopt"), CaptureReport):
        return gm
    for name in hidden_in(gm):
        hides = f"the input {name} hides what the generated code calls {name}"
        subject = f"{hides}, so it computes another thing than its nodes say:"
        raise CaptureError(subject, remedies=("rename it in the model's forward, or capture the model itself",))
    shapes = fill_in_shapes(gm, inputs, dynamic)
    free = shapes.names.free() if shapes.names is not None else {}
    notes = (shapes.reason,) if shapes.reason else ()
    gm.meta["fxopt"] = CaptureReport("given", described(free), notes=notes, example=in_example(free))
    return gm


def _climb(rungs: Rungs, allow_baked: bool, verify: bool) -> GraphModule:
    started = time.perf_counter()
    expected = _answer_of_model(rungs) if verify else None
    failures = _Failures(rungs, allow_baked)
    for name, way in rungs.ways(allow_baked):
        rungs.tell(name)
        begun = time.perf_counter()
        try:
            captured = way()
            gm, report = captured.gm, captured.report
            gm.meta["fxopt"] = report
            install_checks(gm)
            if expected is not None:
                rungs.tell("comparing with the model")
                report = verified(captured, rungs.model, rungs.inputs, expected)
        except CaptureCancelledError:
            raise
        except Exception as error:  # noqa: BLE001  any error is reported, and the next way is tried
            failures.add(name, error, time.perf_counter() - begun)
            continue
        seconds = time.perf_counter() - started
        gm.meta["fxopt"] = replace(report, seconds=seconds, tried=tuple(failures.ways))
        return gm
    raise failures.summary()


def _answer_of_model(rungs: Rungs) -> RunResult:
    rungs.tell("running the model")
    expected = run_result(rungs.model, rungs.model, rungs.inputs)
    if expected.error is not None:
        error, line = expected.error, line_of(expected.error)
        reason = f"{type(error).__name__}: {first_line(error)}"
        subject = f"{type(rungs.model).__name__} itself raises on the example, before any capture:"
        raise ExampleRefusedError(subject, (FailedRung("the model", reason, line),), ("another example",)) from error
    return expected


class _Failures:
    """The ways that were tried in vain, and their errors."""

    def __init__(self, rungs: Rungs, allow_baked: bool) -> None:
        self.ways: list[FailedRung] = []
        self._rungs, self._allow_baked = rungs, allow_baked
        self._remedies: tuple[str, ...] = ()
        self._partial: GraphModule | None = None

    def add(self, name: str, error: Exception, seconds: float) -> None:
        has_own_remedy = isinstance(error, RecordingError) and bool(error.remedy)
        hopeless, spent = is_data_dependent(error) or has_own_remedy, isinstance(error, BudgetError)
        tape, self._rungs.tape = self._rungs.tape, None
        told = tape.as_exported if tape is not None else None
        asked = told.asked if told is not None and told.answer and not (hopeless or spent) else None
        self._rungs.hopeless, self._rungs.spent, self._rungs.asked = hopeless, spent, asked
        reason = reason_of(error)
        if asked is not None:
            reason += f"; {at(asked)} was told that the model is exported, where it may go another way than usual"
        self.ways.append(FailedRung(name, reason, line_of(error), seconds))
        module = tape.failed_in if tape is not None else None
        self._remedies = remedies_for(self._rungs.model, error, module, self._allow_baked)
        partial = partial_graph_module_of(tape) if tape is not None and not tape.complete else None
        if partial is not None and len(partial.graph.nodes) > self._length:
            self._partial = partial

    @property
    def _length(self) -> int:
        return len(self._partial.graph.nodes) if self._partial is not None else 0

    def summary(self) -> CaptureError:
        subject = f"no way of capturing {type(self._rungs.model).__name__} worked:"
        return CaptureError(subject, tuple(self.ways), self._remedies, self._partial)
