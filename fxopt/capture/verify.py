"""Prove a captured graph on the example and on other sizes, or find where it does not hold."""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from fxopt.capture.checks import SizeCheck
from fxopt.capture.inputs import Inputs
from fxopt.capture.replay import Free, Outcome, compare_at, difference, outcome_of, resized
from fxopt.capture.report import CaptureReport, FixedSize, RecordingError
from fxopt.capture.rungs import Captured


def verified(captured: Captured, model: nn.Module, inputs: Inputs, expected: Outcome) -> CaptureReport:
    """The report, with a check more for each size 1 at which the model computes otherwise.

    Torch takes a symbolic size for 2 or more, so a model that asks ``if x.size(0) == 1`` is not seen
    asking; the replay at size 1 tells. Raises `RecordingError` where the graph differs elsewhere.
    """
    different = difference(expected, outcome_of(captured.gm, model, inputs))
    if different is not None:
        raise RecordingError("; ".join((f"on the example, {different}", *captured.doubts)))
    notes: list[str] = []
    if captured.free:
        _compare_larger(captured, model, inputs, notes)
    ones = _ones_to_refuse(captured, model, inputs, notes)
    return replace(
        captured.report,
        verified=True,
        notes=(*captured.report.notes, *notes),
        checks=(*captured.report.checks, *ones),
        fixed=(*captured.report.fixed, *(FixedSize(one.condition, None, one.reason) for one in ones)),
    )


def _compare_larger(captured: Captured, model: nn.Module, inputs: Inputs, notes: list[str]) -> None:
    """At larger sizes: each free one by another amount, else all by one amount, else only the batch.

    The model may refuse: a mask is to have one place more than the cache, say.
    """
    larger = _larger(inputs, captured.free)
    together = _larger(inputs, captured.free, by=0)
    for sizes in (larger, together, {"batch": larger["batch"]} if "batch" in larger else {}):
        compared = compare_at(captured.gm, model, resized(inputs, captured.free, sizes))
        if compared.difference is not None:
            raise RecordingError(f"at {_written(sizes)}, {compared.difference}")
        if not compared.refused:
            return
        notes.append(f"not compared at {_written(sizes)}: {compared.refused}")


def _ones_to_refuse(captured: Captured, model: nn.Module, inputs: Inputs, notes: list[str]) -> tuple[SizeCheck, ...]:
    def differs(names: list[str]) -> bool:
        changed = resized(inputs, captured.free, dict.fromkeys(names, 1))
        return compare_at(captured.gm, model, changed).difference is not None

    names = list(captured.free)
    if not names or not differs(names):
        return ()
    wrong = [[name] for name in names if differs([name])] or [names]
    return tuple(_not_one(each, captured.free) for each in wrong)


def _not_one(names: list[str], free: Free) -> SizeCheck:
    places = [(name, free[name][0]) for name in names]
    return SizeCheck(
        " or ".join(f"{name} != 1" for name in names),
        tuple((name, place.input.path, place.dimension) for name, place in places),
        None,
        "a size of 1 takes another way through the model: capture with an example of size 1",
    )


def _larger(inputs: Inputs, free: Free, by: int = 1) -> dict[str, int]:
    """Each size larger, and each next one `by` more."""
    tensors = {each.path: each.tensor for each in inputs.tensors}
    return {
        name: tensors[places[0].input.path].shape[places[0].dimension] + 1 + by * index
        for index, (name, places) in enumerate(free.items())
    }


def _written(sizes: dict[str, int]) -> str:
    return ", ".join(f"{name} {size}" for name, size in sizes.items())
