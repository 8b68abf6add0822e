"""One output of two graphs: the distance, and the verdict if rounding explains it.

The original is run a second time in float64. Its error against that run is the effect of rounding on this
model and these inputs, and the new graph may err as much, within a factor:

    error of new  <=  4 * error of original  +  32 * eps * scale

with eps of the output's dtype, and scale the largest magnitude of the float64 output.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fxopt.evidence.difference import Difference, difference, largest_error
from fxopt.evidence.in_words import two_digits

FEW_ULP = 64

_PLAIN = (bool, int, float, str, type(None))


@dataclass(frozen=True)
class OutputReport:
    """One leaf of the output, over all inputs.

    `error_before` and `error_after` are the largest errors against float64, `allowed` is the bound that rounding
    explains; None without a reference. `fits` is the answer, None if it is open. `difference` is None if subtraction is
    undefined: other shapes or dtypes, other types.
    """

    name: str
    shape: str
    dtype: str
    difference: Difference | None
    fits: bool | None
    verdict: str
    error_before: float | None = None
    error_after: float | None = None
    allowed: float | None = None

    @property
    def closeness(self) -> tuple[int, float]:
        """The sort key that puts the output furthest off first."""
        answer = {False: 0, None: 1, True: 2}[self.fits]
        if self.difference is None:
            return answer, -math.inf
        if self.difference.identical:
            return answer, math.inf
        if self.error_after is None or not self.allowed:
            return answer, -self.difference.max_abs
        return answer, -self.error_after / self.allowed

    def merged(self, other: OutputReport) -> OutputReport:
        """Merge the reports of two inputs: the worse answer, and the larger figures, also in the verdict."""
        worst = min(self, other, key=lambda report: report.closeness)
        if self.difference is None or other.difference is None:
            return worst
        both = replace(
            worst,
            shape=self.shape if self.shape == other.shape else f"{self.shape}, {other.shape}",
            difference=self.difference.merged(other.difference),
            error_before=_larger(self.error_before, other.error_before),
            error_after=_larger(self.error_after, other.error_after),
        )
        return replace(_judged(both), fits=worst.fits)


def compared(name: str, old: Any, new: Any, exact: Any = None) -> OutputReport | None:
    """Report on `new` against the original's `old`; `exact` is the float64 value, if there is one.

    Return None if both are objects that cannot be compared.
    """
    if not isinstance(old, Tensor) or not isinstance(new, Tensor):
        if _same(old, new):
            return OutputReport(name, "", type(old).__name__, None, True, "equal")
        if not isinstance(old, (Tensor, *_PLAIN)) or not isinstance(new, (Tensor, *_PLAIN)):
            return None
        return _unlike(name, old, f"{_said(old)} became {_said(new)}")
    for what, one, other in (("shape", _shape(old), _shape(new)), ("dtype", _dtype(old), _dtype(new))):
        if one != other:
            return _unlike(name, old, f"{what} {one} became {other}")
    report = OutputReport(name, _shape(old), _dtype(old), difference(old, new), None, "")
    rounds = old.dtype.is_floating_point or old.dtype.is_complex
    if rounds and isinstance(exact, Tensor) and exact.shape == old.shape:
        scale = largest_error(exact, torch.zeros_like(exact))
        error = largest_error(old, exact)
        report = replace(
            report,
            error_before=error,
            error_after=largest_error(new, exact),
            allowed=4 * error + 32 * torch.finfo(old.dtype).eps * scale,
        )
    return _judged(report)


def _judged(report: OutputReport) -> OutputReport:
    """Return the report with its answer, in words and as `fits`."""
    found = report.difference
    if found is None:
        return report
    if found.identical:
        return replace(report, fits=True, verdict="identical bits")
    if found.unlike:
        many = f"{found.unlike:,} of {found.elements:,} elements"
        return replace(report, fits=False, verdict=f"differs: {many} are NaN or infinite in one only")
    if "float" not in report.dtype and "complex" not in report.dtype:
        many = f"{found.differing:,} of {found.elements:,} elements"
        return replace(report, fits=False, verdict=f"differs in {many}")
    if found.max_ulp is not None and found.max_ulp <= FEW_ULP:
        apart = f"within {found.max_ulp} ulp"
    else:
        apart = f"within {two_digits(found.max_abs)} of outputs up to {two_digits(found.scale)}"
    before, after, allowed = report.error_before, report.error_after, report.allowed
    if before is None or after is None or allowed is None:
        return replace(report, fits=None, verdict=f"{apart}; not judged, without a float64 reference")
    errors = f"error against float64 {two_digits(after)}, the original's was {two_digits(before)}"
    if after <= allowed:
        return replace(report, fits=True, verdict=f"{apart}; {errors}")
    return replace(report, fits=False, verdict=f"differs, {apart}; {errors}; rounding explains {two_digits(allowed)}")


def _unlike(name: str, old: Any, how: str) -> OutputReport:
    shape, dtype = (_shape(old), _dtype(old)) if isinstance(old, Tensor) else ("", type(old).__name__)
    return OutputReport(name, shape, dtype, None, False, f"differs: {how}")


def _same(one: Any, other: Any) -> bool:
    if not isinstance(one, _PLAIN) or not isinstance(other, _PLAIN):
        return False
    return bool(one == other or (one != one and other != other))  # NaN is like itself


def _said(value: Any) -> str:
    return f"a tensor of {_shape(value)}" if isinstance(value, Tensor) else repr(value)


def _larger(one: float | None, other: float | None) -> float | None:
    return one if other is None else other if one is None else max(one, other)


def _shape(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape)) or "scalar"


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
