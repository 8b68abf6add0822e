"""The ways of capturing a model, in the order of the ladder. Each gives a graph module, or raises."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.fx import GraphModule, Node

from fxopt.graph.nodes import SourceLine
from fxopt.tracing.assemble import graph_module_of
from fxopt.tracing.checks import CallInputs, InputSizeError, SizeCheck
from fxopt.tracing.facts import asked_facts, carriers_of
from fxopt.tracing.hygiene import forget_fake_tensors
from fxopt.tracing.inputs import Inputs
from fxopt.tracing.interception import named_by_forward
from fxopt.tracing.leaves import Leaf
from fxopt.tracing.plain import PlainTrace, is_plain, trace_plainly
from fxopt.tracing.propagate import fill_in_shapes
from fxopt.tracing.replay import Free, resized
from fxopt.tracing.report import BakedValue, CaptureReport, FixedSize, RecordingError
from fxopt.tracing.size_names import fixed_size_check
from fxopt.tracing.sizes import Dynamic, InputSize, Sizes, free_dimensions, is_image, with_heights_and_widths
from fxopt.tracing.sources import Sources
from fxopt.tracing.tape import Tape

_SECONDS_FOR_IMAGES = 20.0
"""CPU time for a recording with free heights and widths."""


@dataclass(frozen=True, eq=False)
class Captured:
    """An unproven graph module, and the sizes that it claims to be free in.

    `doubts` are the parts of the model that the graph leaves out, which may explain a difference;
    `asked` are the facts of inputs, and the modes, that the forward asks for, each with the line that does.
    """

    gm: GraphModule
    report: CaptureReport
    free: Free
    doubts: tuple[str, ...] = ()
    asked: Mapping[str, SourceLine | None] = field(default_factory=dict)


@dataclass(eq=False)
class Rungs:
    """The ladder for one model and example.

    `tape` is the latest recording, finished or not; `hopeless` says that fewer free sizes would be of no help to it,
    `spent` that it used up its budget, and `asked` is the line of the model that was told that it is exported, after a
    failure that this may explain.
    """

    model: nn.Module
    inputs: Inputs
    dynamic: Dynamic
    leaf: Leaf
    budget: float
    tell: Callable[[str], None]
    tape: Tape | None = None
    hopeless: bool = False
    spent: bool = False
    asked: SourceLine | None = None
    heights: str = ""
    """The reason why heights and widths of images were left fixed."""

    def ways(self, allow_baked: bool) -> Iterator[tuple[str, Callable[[], Captured]]]:
        if is_plain(self.model):
            yield "plain torch.fx", self._plain
        if self.dynamic != "none":
            doubled = with_batch_of_two(self.inputs) if isinstance(self.dynamic, str) else None
            images = with_heights_and_widths(self.inputs) if self.dynamic == "auto" else None
            fixed = why_heights_are_fixed(self.model) if images is not None else ""
            if images is not None and not fixed:
                yield "symbolic heights and widths", lambda: self._of_any_image(doubled or self.inputs, images)
            self.heights = f"heights and widths are those of the example: {fixed}" if fixed else ""
            if doubled is not None:
                yield from self._ways("symbolic sizes, the batch of 1 doubled", doubled, self.dynamic)
            if doubled is None or not self.spent:
                yield from self._ways("symbolic sizes", self.inputs, self.dynamic)
            if self.dynamic == "auto" and not self.hopeless and frees_more_than_batch(self.inputs):
                only_batch = {each.name: [0] for each in self.inputs.tensors if each.tensor.dim()}
                within = self.budget / 2 if self.spent else None
                yield from self._ways("symbolic batch", doubled or self.inputs, only_batch, within)
        yield from self._ways("fixed sizes", self.inputs, "none")
        if allow_baked:
            yield "real values", lambda: self._taped("real values", self.inputs, "none", real=True)

    def _ways(
        self, name: str, inputs: Inputs, dynamic: Dynamic, within: float | None = None
    ) -> Iterator[tuple[str, Callable[[], Captured]]]:
        """Record the model as one that is exported; where it asks for that and fails, as one that runs as usual."""
        yield name, lambda: self._taped(name, inputs, dynamic, within=within)
        if self.asked is not None:
            usual = f"{name}, as in an ordinary run"
            yield usual, lambda: self._taped(usual, inputs, dynamic, as_exported=False, within=within)

    def _of_any_image(self, inputs: Inputs, dynamic: Dynamic) -> Captured:
        """Return a recording with heights and widths free, for a model that takes any or fixes them in a line.

        It has few seconds, since expressions of many floors take long. A model that takes heights of a small range only
        is left to the next way, whose sizes are fixed and plain to read.
        """
        within = min(self.budget, _SECONDS_FOR_IMAGES)
        captured = self._taped("symbolic heights and widths", inputs, dynamic, within=within)
        of_images = [name for name, places in captured.free.items() if any(map(_is_height_or_width, places))]
        twice = resized(inputs, captured.free, {name: 2 * captured.free[name][0].in_example for name in of_images})
        values = CallInputs({argument.name: argument.value for argument in twice.arguments})
        for check in captured.report.checks if of_images else ():
            try:
                check.check(values)
            except InputSizeError as error:
                raise RecordingError(f"the model takes few heights and widths ({error})") from None
        return captured

    def _plain(self) -> Captured:
        trace = trace_plainly(self.model, self.inputs, self.leaf)
        gm, doubts = trace.gm, _doubts(trace.grad_switched, trace.drawn)
        shapes = fill_in_shapes(gm, with_batch_of_two(self.inputs) or self.inputs, self.dynamic)
        free = shapes.names.free() if shapes.names is not None else {}
        report = CaptureReport(
            "plain",
            described(free),
            notes=(shapes.reason, *doubts) if shapes.reason else doubts,
            checks=self.inputs.checks(ranks=False),
            temporary=tuple(gm._non_persistent_buffers_set),
            example=in_example(free),
        )
        asked = _asked_plainly(trace) | named_by_forward(self.model)
        return Captured(gm, report, free, doubts, asked)

    def _taped(
        self,
        name: str,
        inputs: Inputs,
        dynamic: Dynamic,
        real: bool = False,
        as_exported: bool = True,
        within: float | None = None,
    ) -> Captured:
        sizes = Sizes(inputs, dynamic) if dynamic != "none" else None
        kind = "real" if real else "symbolic" if sizes is not None else "fixed"
        sources = Sources(self.model, kind, sizes)
        budget = (self.budget if within is None else within) if sizes is not None else None
        told = lambda calls: self.tell(f"{name}, after {calls} calls")  # noqa: E731
        self.tape = tape = Tape(self.model, inputs, sources, self.leaf, budget, told, as_exported)
        try:
            tape.record()
            if sizes is not None:
                sizes.share_companions()
            asked = tape.asked()
            gm = graph_module_of(tape)
        finally:
            if sizes is not None:
                sizes.release()
            if kind != "real":
                forget_fake_tensors()
        doubts = _doubts(tape.grad_switched, [] if real else tape.drawn)
        names = tape.size_names()
        size_checks = names.checks() if names is not None else all_fixed(inputs)
        free = names.free() if names is not None else {}
        report = CaptureReport(
            kind,
            described(free),
            tuple(FixedSize(check.condition, check.line, check.reason) for check in size_checks),
            (*tape.baked, *(BakedValue(name, "the numbers of this run", None) for name in tape.drawn if real)),
            notes=(*([self.heights] if self.heights and sizes is not None else []), *_notes(tape), *doubts),
            checks=(*self.inputs.checks(), *size_checks),
            temporary=tuple(gm._non_persistent_buffers_set),
            example=in_example(free),
        )
        return Captured(gm, report, free, doubts, asked | named_by_forward(self.model))


def _asked_plainly(trace: PlainTrace) -> dict[str, SourceLine | None]:
    """Return the facts that proxies were asked for: Python may have compared them with ``is``."""

    def has_weights(node: Node) -> bool:
        return node.op == "call_module" and any(True for _ in trace.gm.get_submodule(str(node.target)).parameters())

    return asked_facts(trace.asks, carriers_of(trace.gm.graph, has_weights))


def why_heights_are_fixed(model: nn.Module) -> str:
    """Return the reason for which heights and widths are not tried free; "" where they are.

    Weights are for positions, or attention is over patches or windows: then sizes are fixed anyway, or slow. With free
    heights and widths a small Swin takes minutes; MobileViT makes a plain number of a height, ``int(math.ceil(...))``,
    which fixes it, after ten seconds of recording. Of attention only that of SegFormer is known to take any size.
    """
    tensors = (*model.named_parameters(), *model.named_buffers())
    for_positions = next((name for name, _ in tensors if "pos" in name), None)
    if for_positions is not None:
        return f"{for_positions} is about positions, which fix a size or make symbolic ones take minutes"
    config = getattr(model, "config", None)
    cut = [name for name in ("patch_size", "window_size") if hasattr(config, name)]
    if config is not None and not cut:
        return ""
    modules = (path for path, module in model.named_modules() if "attention" in type(module).__name__.lower())
    attention = next(modules, None)
    if attention is None:
        return ""
    over = f" over what {' and '.join(cut)} of the config cut" if cut else ""
    return f"{attention} is attention{over}, which makes plain numbers of sizes, or whose symbolic ones take minutes"


def _is_height_or_width(size: InputSize) -> bool:
    return is_image(size.input) and size.dimension > 1


def frees_more_than_batch(inputs: Inputs) -> bool:
    return any(set(free_dimensions(each, "auto")) - {0} for each in inputs.tensors)


def _doubts(grad_switched: SourceLine | None, drawn: list[str]) -> tuple[str, ...]:
    doubts = [f"what forward draws from {name} is a constant of the graph" for name in drawn]
    if grad_switched is not None:
        doubts.append(f"grad mode is not part of the graph; the model first sets it at {grad_switched}")
    return tuple(doubts)


def _notes(tape: Tape) -> tuple[str, ...]:
    notes = [f"{path} is called {target} in the graph" for path, target in tape.sources.renamed.items()]
    notes += [f"forward assigns to {name}; the graph does not" for name in dict.fromkeys(tape.assigned)]
    if tape.autocast_disabled is not None:
        notes.append(f"the model disables autocast at {tape.autocast_disabled}; the graph does not")
    return tuple(notes)


def described(free: Free) -> dict[str, str]:
    return {name: ", ".join(place.where for place in places) for name, places in free.items()}


def in_example(free: Free) -> dict[str, int]:
    return {name: places[0].in_example for name, places in free.items()}


def all_fixed(inputs: Inputs) -> tuple[SizeCheck, ...]:
    return tuple(
        fixed_size_check(InputSize(each, dimension), "this graph is for the sizes of its example only")
        for each in inputs.tensors
        for dimension in range(each.tensor.dim())
    )


def with_batch_of_two(inputs: Inputs) -> Inputs | None:
    """Return a batch of 1 doubled, since a size of 1 cannot be symbolic; None for any other batch."""
    tensors = [each.tensor for each in inputs.tensors]
    with_batch = [tensor for tensor in tensors if tensor.dim()]
    if not with_batch or any(tensor.shape[0] != 1 for tensor in with_batch):
        return None
    return inputs.with_tensors([torch.cat([tensor] * 2) if tensor.dim() else tensor for tensor in tensors])
