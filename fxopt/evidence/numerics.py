"""Numerics: does the new graph compute the same as the original? Judged by rounding rather than by a tolerance.

`output_report` has the rule, applied to one output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd
from torch import nn

from fxopt.display import Displayed
from fxopt.evidence.float64 import in_float64, run_in_float64
from fxopt.evidence.output_report import OutputReport, compared
from fxopt.evidence.running import EvidenceError, RunStoppedError, leaves_of, run

Inputs = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class NumericsReport(Displayed):
    """A comparison of outputs; `not_covered` lists the parts left out, each with the reason."""

    outputs: tuple[OutputReport, ...]
    inputs: int
    not_covered: tuple[str, ...]
    failure: str | None = None

    def __repr__(self) -> str:
        return f"NumericsReport({self.verdict})"

    @property
    def identical(self) -> bool:
        """True where every output has the very bits of the original's."""
        found = [output.difference for output in self.outputs if output.difference is not None]
        return bool(found) and self.fits is True and all(one.identical for one in found)

    @property
    def fits(self) -> bool | None:
        """True if rounding explains all differences, False if it fails to, None if that is unknown."""
        answers = {output.fits for output in self.outputs}
        if self.failure is not None or False in answers:
            return False
        return None if None in answers or not answers else True

    @property
    def verdict(self) -> str:
        """Give the answer in a sentence: that of the output that lies furthest off."""
        over = f"over {self.inputs} input{'s' if self.inputs != 1 else ''}"
        if self.failure is not None:
            return self.failure
        if not self.outputs:
            return "no output that can be compared"
        if self.identical:
            return f"identical bits {over}"
        worst = min(self.outputs, key=lambda output: output.closeness)
        name = f"{worst.name}: " if len(self.outputs) > 1 else ""
        return f"{name}{worst.verdict}, {over}"

    @property
    def frame(self) -> pd.DataFrame:
        """Return a row for each output."""
        return pd.DataFrame([_cells(output) for output in self.outputs])


def _cells(output: OutputReport) -> dict[str, Any]:
    found = output.difference
    return {
        "output": output.name,
        "shape": output.shape,
        "dtype": output.dtype,
        "identical": found.identical if found else output.fits,
        "max ulp": found.max_ulp if found else None,
        "max abs error": found.max_abs if found else None,
        "max rel error": found.max_rel if found else None,
        "original against float64": output.error_before,
        "new against float64": output.error_after,
        "explained by rounding": output.allowed,
        "verdict": output.verdict,
    }


def compare_outputs(
    before: nn.Module, after: nn.Module, inputs: Sequence[Inputs], *, reference: bool = True
) -> NumericsReport:
    """Compare the outputs of two models for each of `inputs`, which are pairs of args and kwargs.

    With `reference`, the original is also run in float64, on a copy that takes twice its memory.
    Raises an `EvidenceError` where the original fails; where only the new one does, the report says so.
    """
    return Original(before, inputs, reference=reference).compare(after)


class Original:
    """The outputs of a model for some inputs, kept for the comparison with one graph after another.

    Args:
        model: runs at once, and with `reference` in float64 as well, on a copy that takes twice its memory.
        inputs: pairs of args and kwargs.
        reference: one that was made before saves another copy in float64.

    Raises:
        EvidenceError: the model fails, or there are no inputs.
    """

    def __init__(self, model: nn.Module, inputs: Sequence[Inputs], *, reference: bool | Reference = True) -> None:
        if not inputs:
            raise EvidenceError("no inputs to compare on; give a list of (args, kwargs)")
        judge = reference.again() if isinstance(reference, Reference) else Reference(model) if reference else None
        self._runs: list[_Run] = []
        for number, (args, kwargs) in enumerate(inputs, 1):
            old = _outputs(model, args, kwargs, f"the original fails on input {number}")
            self._runs.append(_Run(args, kwargs, old, judge.outputs(args, kwargs) if judge is not None else {}))
        told = []
        if judge is None or judge.problem:
            told.append(judge.problem if judge else "float64 was not asked for")
        if judge is not None and judge.narrow:
            told.append(f"{', '.join(judge.narrow)}: in its own precision in the float64 reference, too")
        self._not_covered = tuple(told)

    def compare(self, after: nn.Module) -> NumericsReport:
        """Compare the outputs of `after` with those of the original."""
        found: dict[str, OutputReport] = {}
        not_covered: dict[str, None] = {}
        for number, run_ in enumerate(self._runs, 1):
            try:
                new = _outputs(after, run_.args, run_.kwargs, f"the new graph fails on input {number}")
            except RunStoppedError:
                raise
            except EvidenceError as error:
                return NumericsReport(tuple(found.values()), len(self._runs), tuple(not_covered), str(error))
            for name in dict.fromkeys([*run_.outputs, *new]):
                report = compared(name, run_.outputs.get(name), new.get(name), run_.exact.get(name))
                if report is None:
                    not_covered[f"{name}: {type(run_.outputs.get(name)).__name__} cannot be compared"] = None
                else:
                    found[name] = found[name].merged(report) if name in found else report
        return NumericsReport(tuple(found.values()), len(self._runs), (*not_covered, *self._not_covered))


class _Run(NamedTuple):
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: dict[str, Any]
    exact: dict[str, Any]
    """The outputs in float64; empty without a reference."""


class Reference:
    """The original in float64; `problem` holds the reason why it could not be made or run."""

    def __init__(self, original: nn.Module) -> None:
        self.problem = ""
        self._model = original
        self._made = False
        self.narrow: dict[str, None] = {}
        """The scripts and operators that compute in their own precision even here."""

    def again(self) -> Reference:
        """Forget the problems of earlier runs: other inputs may have none. The copy of the model stays."""
        if self._made:
            self.problem = ""
        self.narrow = {}
        return self

    def outputs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        if self.problem:
            return {}
        try:
            if not self._made:
                self._model, self._made = in_float64(self._model), True
            return _by_name(run_in_float64(self._model, args, kwargs, self.narrow))
        except RunStoppedError:
            raise
        except Exception as error:  # noqa: BLE001 - a model may fail in any way; the report says how
            first_line = (str(error).splitlines() or [""])[0]
            self.problem = f"no float64 reference: {type(error).__name__}: {first_line}"
            return {}


def _outputs(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], failure: str) -> dict[str, Any]:
    try:
        return _by_name(run(model, args, kwargs))
    except RunStoppedError:
        raise
    except Exception as error:  # a model may fail in any way
        raise EvidenceError(f"{failure}: {type(error).__name__}: {error}") from error


def _by_name(result: Any) -> dict[str, Any]:
    return {name or "output": leaf for name, leaf in leaves_of(result)}
