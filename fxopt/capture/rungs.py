"""The ways of capturing a model, in the order of the ladder. Each gives a graph module, or raises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import nn
from torch.fx import GraphModule

from fxopt.capture.assemble import graph_module_of
from fxopt.capture.checks import SizeCheck
from fxopt.capture.hygiene import forget_fake_tensors
from fxopt.capture.inputs import Inputs
from fxopt.capture.leaves import Leaf
from fxopt.capture.plain import is_plain, trace_plainly
from fxopt.capture.propagate import fill_in_shapes
from fxopt.capture.replay import Free
from fxopt.capture.report import CaptureReport, FixedSize
from fxopt.capture.size_names import fixed_size_check
from fxopt.capture.sizes import Dynamic, InputSize, Sizes
from fxopt.capture.sources import Sources
from fxopt.capture.tape import Tape


@dataclass(frozen=True, eq=False)
class Captured:
    """A graph module that is not yet proven, and the sizes that it claims to be free in."""

    gm: GraphModule
    report: CaptureReport
    free: Free


@dataclass(eq=False)
class Rungs:
    """The ladder for one model and example; `tape` is the latest recording, finished or not."""

    model: nn.Module
    inputs: Inputs
    dynamic: Dynamic
    leaf: Leaf
    budget: float
    tape: Tape | None = None

    def ways(self, allow_baked: bool) -> Iterator[tuple[str, Callable[[], Captured]]]:
        if is_plain(self.model):
            yield "plain torch.fx", self._plain
        if self.dynamic != "none":
            doubled = with_batch_of_two(self.inputs)
            if doubled is not None and isinstance(self.dynamic, str):
                yield "symbolic sizes, the batch of 1 doubled", lambda: self._taped("symbolic", doubled)
            yield "symbolic sizes", lambda: self._taped("symbolic", self.inputs)
        yield "fixed sizes", lambda: self._taped("fixed", self.inputs)
        if allow_baked:
            yield "real values", lambda: self._taped("real", self.inputs)

    def _plain(self) -> Captured:
        gm = trace_plainly(self.model, self.inputs, self.leaf)
        shapes = fill_in_shapes(gm, with_batch_of_two(self.inputs) or self.inputs, self.dynamic)
        free = shapes.names.free() if shapes.names is not None else {}
        notes = (shapes.reason,) if shapes.reason else ()
        report = CaptureReport(
            "plain",
            described(free),
            notes=notes,
            checks=self.inputs.checks(ranks=False),
            temporary=tuple(gm._non_persistent_buffers_set),
        )
        return Captured(gm, report, free)

    def _taped(self, kind: str, inputs: Inputs) -> Captured:
        sizes = Sizes(inputs, self.dynamic) if kind == "symbolic" else None
        sources = Sources(self.model, kind, sizes)
        budget = self.budget if kind == "symbolic" else None
        self.tape = tape = Tape(self.model, inputs, sources, self.leaf, budget)
        try:
            tape.record()
            if sizes is not None:
                sizes.share_companions()
            gm = graph_module_of(tape)
        finally:
            if sizes is not None:
                sizes.release()
            if kind != "real":
                forget_fake_tensors()
        names = tape.size_names()
        size_checks = names.checks() if names is not None else all_fixed(inputs)
        free = names.free() if names is not None else {}
        report = CaptureReport(
            kind,
            described(free),
            tuple(FixedSize(check.condition, check.line, check.reason) for check in size_checks),
            tuple(tape.baked),
            notes=_notes(tape),
            checks=(*self.inputs.checks(), *size_checks),
            temporary=tuple(gm._non_persistent_buffers_set),
        )
        return Captured(gm, report, free)


def _notes(tape: Tape) -> tuple[str, ...]:
    notes = [f"{path} is called {target} in the graph" for path, target in tape.sources.renamed.items()]
    if tape.grad_switched is not None:
        notes.append(f"grad mode is not part of the graph; the model first sets it at {tape.grad_switched}")
    notes += [f"forward assigns to {name}; the graph does not" for name in dict.fromkeys(tape.assigned)]
    return tuple(notes)


def described(free: Free) -> dict[str, str]:
    return {name: ", ".join(place.where for place in places) for name, places in free.items()}


def all_fixed(inputs: Inputs) -> tuple[SizeCheck, ...]:
    return tuple(
        fixed_size_check(InputSize(each, dimension), "this graph is for the sizes of its example only")
        for each in inputs.tensors
        for dimension in range(each.tensor.dim())
    )


def with_batch_of_two(inputs: Inputs) -> Inputs | None:
    """A batch of 1 doubled, since a size of 1 cannot be symbolic; None where the batch is none of 1."""
    tensors = [each.tensor for each in inputs.tensors]
    with_batch = [tensor for tensor in tensors if tensor.dim()]
    if not with_batch or any(tensor.shape[0] != 1 for tensor in with_batch):
        return None
    return inputs.with_tensors([torch.cat([tensor] * 2) if tensor.dim() else tensor for tensor in tensors])
