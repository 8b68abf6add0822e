"""Proof of a captured graph on the example and on other inputs, or the place of its failure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

import torch
from torch import nn

from fxopt.tracing.checks import Check, MaskCheck, SameMaskCheck, SizeCheck, fullness
from fxopt.tracing.inputs import Inputs, InputTensor, order_checks
from fxopt.tracing.masks import flipped, has_padding, is_full, masks_of, padded
from fxopt.tracing.replay import Comparison, Free, RunResult, Setting, compare_at, mismatch, resized, run_result
from fxopt.tracing.report import CaptureReport, FixedSize, RecordingError
from fxopt.tracing.rungs import Captured
from fxopt.tracing.trials import Trials

_FEW = 2


def verified(captured: Captured, model: nn.Module, inputs: Inputs, expected: RunResult) -> CaptureReport:
    """Return the report, with a check more for each kind of input at which the model computes otherwise.

    A recording misses two kinds. Torch takes a symbolic size for 2 or more, so ``if x.size(0) == 1`` is no question.
    And transformers leaves out a mask that is all ones, except in an export, which a recording is. Raises
    `RecordingError` if the graph differs elsewhere.
    """
    return _Verification(captured, model, inputs).report(expected)


class _Verification:
    def __init__(self, captured: Captured, model: nn.Module, inputs: Inputs) -> None:
        self.captured, self.model, self.inputs = captured, model, inputs
        self.free = captured.free
        self.masks = masks_of(inputs)
        self.guarded: list[InputTensor] = []
        self.notes: list[str] = []

    def report(self, expected: RunResult) -> CaptureReport:
        different = mismatch(expected, run_result(self.captured.gm, self.model, self.inputs))
        if different is not None:
            raise RecordingError("; ".join((f"on the example, {different}", *self._other_way(), *self.captured.doubts)))
        checks: list[Check] = []
        if not self._holds_at_larger_sizes_and_other_masks():
            checks += self._mask_checks()
            if self.free:
                self._compare_larger()
        if not self.guarded:
            checks += self._padding_checks()
        facts = [*self._order_checks(), *self._fact_checks()]
        self.notes += [f"holds where {check}: elsewhere the model goes another way" for check in facts]
        ones = self._ones_to_refuse()
        report = self.captured.report
        return replace(
            report,
            verified=True,
            notes=(*report.notes, *self.notes),
            checks=(*report.checks, *checks, *facts, *ones),
            fixed=(*report.fixed, *(FixedSize(one.condition, None, one.reason) for one in ones)),
        )

    def _at(self, sizes: dict[str, int], masks: Collection[InputTensor] = ()) -> Comparison:
        """Return the comparison at these sizes, with these masks of the other kind."""
        changed = resized(self.inputs, self.free, sizes)
        if masks:
            paths = {mask.path for mask in masks}
            changed = flipped(changed, [each for each in masks_of(changed) if each.path in paths])
        return compare_at(self.captured.gm, self.model, changed)

    # ------------------------------------------------------------ masks
    def _holds_at_larger_sizes_and_other_masks(self) -> bool:
        """Return whether one comparison proves both; if it fails, each is looked at alone."""
        if not self.free and not self.masks:
            return True
        compared = self._at(self._larger(), self.masks)
        return compared.difference is None and not compared.refused

    def _mask_checks(self) -> list[Check]:
        if not self.masks or self._at({}, self.masks).difference is None:
            return []
        self.guarded = [mask for mask in self.masks if self._at({}, [mask]).difference is not None] or self.masks
        for left in (False, True):
            others = [mask for mask in self.guarded if not is_full(mask.tensor)]
            if others and self._compare(padded(self.inputs, others, left)).difference is not None:
                return self._fixed_to_the_example(self.guarded)
        checks: list[Check] = []
        for mask in self.guarded:
            full = is_full(mask.tensor)
            reason = f"the model goes another way there: capture again with such a mask{self._or_eager}"
            checks.append(MaskCheck(mask.path, full, reason))
            other = f"where it {fullness(not full)}, the model goes another way"
            self.notes.append(f"holds where {mask.path} {fullness(full)}: {other}")
        return checks

    def _padding_checks(self) -> list[Check]:
        """Compare a row that begins with padding, as for generation, or ends with it: few of everything, at low cost.

        The side of the example's own padding is proven by the example.
        """
        few = resized(self.inputs, self.free, self._few)
        for left in (True, False):
            if all(has_padding(each.tensor, left) for each in self.masks):
                continue
            different = (self._compare(padded(inputs, self.masks, left)).difference for inputs in (few, self.inputs))
            if all(different):
                self.guarded = self.masks
                return self._fixed_to_the_example(self.masks)
        return []

    def _fixed_to_the_example(self, masks: Collection[InputTensor]) -> list[Check]:
        """Return the checks that masks are the example's, which a graph with values of the example may ask for.

        Raises:
            RecordingError: the graph is to hold for other masks.
        """
        names = ", ".join(str(mask.path) for mask in masks)
        if self.captured.report.rung != "real":
            remedy = self._or_eager.removeprefix(", or ") or "write the condition with torch.where"
            raise RecordingError(f"the model decides by the values in {names}", remedy=remedy)
        self.notes.append(f"holds for the zeros and ones of the example's {names}: the model decides by their places")
        return [SameMaskCheck.of(mask.path, mask.tensor) for mask in masks]

    def _compare(self, inputs: Inputs) -> Comparison:
        return compare_at(self.captured.gm, self.model, inputs)

    def _other_way(self) -> Iterator[str]:
        """Yield the grad mode, and the masks of the other kind, at which the graph would agree."""
        if "grad mode" in self.captured.asked:
            compared = compare_at(self.captured.gm, self.model, self.inputs, Setting(mode=torch.enable_grad))
            if compared.difference is None and not compared.refused:
                yield "it agrees where grad mode is on: the model decides by it; capture under torch.no_grad()"
        tensors = [each.tensor for each in self.inputs.tensors]
        distinct = self.inputs.with_tensors([tensor.clone() for tensor in tensors])
        if len(set(map(id, tensors))) < len(tensors) and self._compare(distinct).difference is None:
            yield "it agrees where no tensor is given twice: the model asks for that; give x.clone() the second time"
        for mask in self.masks:
            compared = self._at({}, [mask])
            if compared.difference is None and not compared.refused:
                other = fullness(not is_full(mask.tensor))
                yield f"it agrees where {mask.path} {other}: the model decides by the mask{self._or_eager}"

    @property
    def _or_eager(self) -> str:
        """The remedy of transformers, whose own implementation of attention keeps every mask."""
        if getattr(getattr(self.model, "config", None), "_attn_implementation", "eager") == "eager":
            return ""
        return ', or load the model with attn_implementation="eager"'

    # ------------------------------------------------------------ sizes
    @property
    def _few(self) -> dict[str, int]:
        """Sizes that are more than 1 and cost little."""
        return {name: min(_FEW, places[0].in_example) for name, places in self.free.items()}

    def _larger(self, by: int = 1) -> dict[str, int]:
        """Return each size larger, and each next one `by` more."""
        return {name: places[0].in_example + 1 + by * index for index, (name, places) in enumerate(self.free.items())}

    def _compare_larger(self) -> None:
        """Compare at larger sizes: each free one by another amount, else all by one amount, else each alone.

        The model may refuse: a mask is to have one place more than the cache, say.
        """
        larger, together = self._larger(), self._larger(by=0)
        for sizes in (larger, together):
            refused = self._refused_at(sizes)
            if not refused:
                return
            self.notes.append(f"not compared at {_written(sizes)}: {refused}")
        if len(larger) > 1:
            refusals = {name: self._refused_at({name: size}) for name, size in larger.items()}
            self.notes += [
                f"not compared at another {name}: {refused}" for name, refused in refusals.items() if refused
            ]

    def _refused_at(self, sizes: dict[str, int]) -> str:
        compared = self._at(sizes)
        if compared.difference is not None:
            raise RecordingError(f"at {_written(sizes)}, {compared.difference}")
        return compared.refused

    # ------------------------------------------------------------ sizes of 1
    def _ones_to_refuse(self) -> tuple[SizeCheck, ...]:
        wrong = [[name] for name in self.free if self._differs_at_one(name)]
        if not wrong and len(self.free) > 1 and self._differs(dict.fromkeys(self.free, 1)):
            wrong = [list(self.free)]
        return tuple(_not_one(each, self.free) for each in wrong)

    def _differs_at_one(self, name: str) -> bool:
        """Return whether a size of 1 alone makes a difference, with few of all else or, if refused, as many."""
        compared = self._at_padded({**self._few, name: 1})
        if compared.refused:
            compared = self._at_padded({name: 1})
        return compared.difference is not None

    def _differs(self, sizes: dict[str, int]) -> bool:
        return self._at_padded(sizes).difference is not None

    # ------------------------------------------------------------ facts and modes
    def _fact_checks(self) -> list[Check]:
        few = self._padded_at(self._few)
        return list(Trials(self.captured.gm, self.model, self.captured.asked, few, self.inputs).checks())

    def _order_checks(self) -> list[Check]:
        """Compare with dicts in another order: a model may take ``inputs.values()`` as they come."""
        checks = order_checks(self.inputs)
        different = self._compare(self.inputs.with_dicts_reversed()).difference if checks else None
        return [*checks] if different is not None else []

    def _at_padded(self, sizes: dict[str, int]) -> Comparison:
        """Return the comparison at sizes that leave out entries, with the padding that guarded masks are to have."""
        return self._compare(self._padded_at(sizes))

    def _padded_at(self, sizes: dict[str, int]) -> Inputs:
        changed = resized(self.inputs, self.free, sizes)
        paths = {mask.path for mask in self.guarded if not is_full(mask.tensor)}
        lost = [each for each in masks_of(changed) if each.path in paths and is_full(each.tensor)]
        return padded(changed, lost) if lost else changed


def _not_one(names: list[str], free: Free) -> SizeCheck:
    places = [(name, free[name][0]) for name in names]
    return SizeCheck(
        " or ".join(f"{name} != 1" for name in names),
        tuple((name, place.input.path, place.dimension) for name, place in places),
        None,
        "a size of 1 takes another way through the model: capture with an example of size 1",
    )


def _written(sizes: dict[str, int]) -> str:
    return ", ".join(f"{name} {size}" for name, size in sizes.items())
