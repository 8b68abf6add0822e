"""Numerics over many inputs: does the new graph compute the same for all of them? A verdict for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd
from torch import nn

from fxopt.evidence.numerics import NumericsReport, Original, Reference
from fxopt.evidence.running import EvidenceError, RunStoppedError
from fxopt.evidence.variants import Variant

Progress = Callable[[float], bool | None]


@dataclass(frozen=True, eq=False)
class Sweep:
    """The comparison of two models over variants of the inputs."""

    reports: tuple[tuple[str, NumericsReport], ...]
    """By the name of the variant, in their order."""
    not_covered: tuple[str, ...]
    """The variants and parts left out, each with the reason."""

    @property
    def fits(self) -> bool | None:
        """True if rounding explains all differences, False if it fails to for a variant, None if that is unknown."""
        answers = {report.fits for _, report in self.reports}
        if False in answers:
            return False
        return None if None in answers or not answers else True

    @property
    def identical(self) -> bool:
        return bool(self.reports) and all(report.identical for _, report in self.reports)

    @property
    def verdict(self) -> str:
        """The answer in a sentence: the first variant that fails, or the one that is furthest apart."""
        if not self.reports:
            return "no variant of the inputs could be compared"
        over = f"{len(self.reports)} variants of the inputs"
        failing = [(name, report) for name, report in self.reports if report.fits is False]
        if failing:
            name, report = failing[0]
            return f"differs for {len(failing)} of {over}; {name}: {report.verdict}"
        if self.identical:
            return f"identical bits for all of {over}"
        open_ = [name for name, report in self.reports if report.fits is None]
        if open_:
            return f"not judged for {len(open_)} of {over}: {', '.join(open_)}"
        return f"explained by rounding for all of {over}"

    @property
    def frame(self) -> pd.DataFrame:
        """A row for each output of each variant."""
        frames = []
        for name, report in self.reports:
            frame = report.frame
            frame.insert(0, "inputs", name)
            if report.failure is not None:
                frame = pd.DataFrame([{"inputs": name, "verdict": report.failure}])
            frames.append(frame)
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=["inputs", "verdict"])


def sweep(
    before: nn.Module,
    after: nn.Module,
    variants: Sequence[Variant],
    *,
    reference: bool = True,
    on_progress: Progress | None = None,
) -> Sweep:
    """Compare the outputs of two models for each of the variants; one that fails the original is told as not covered.

    Args:
        reference: whether the original runs in float64 as well, for the verdict.
        on_progress: is told the share that is done, and stops it by returning False.

    Raises:
        RunStoppedError: it was stopped.
    """
    reports: list[tuple[str, NumericsReport]] = []
    not_covered: dict[str, None] = {}
    judge: bool | Reference = Reference(before) if reference else False
    for number, variant in enumerate(variants):
        if on_progress is not None and on_progress(number / len(variants)) is False:
            raise RunStoppedError("the comparison was cancelled")
        try:
            original = Original(before, [variant.inputs], reference=judge)
        except RunStoppedError:
            raise
        except EvidenceError as error:
            not_covered[f"{variant.name}: {error}"] = None
            continue
        report = original.compare(after)
        reports.append((variant.name, report))
        not_covered |= dict.fromkeys(report.not_covered)
    return Sweep(tuple(reports), tuple(not_covered))
