"""Results and errors of capture. Plain data, which pickles."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field

from torch.fx import GraphModule

from fxopt.errors import CancelledError, FxoptError
from fxopt.graph.nodes import SourceLine
from fxopt.tracing.checks import Check


@dataclass(frozen=True)
class FixedSize:
    """A condition on the sizes of the inputs that the graph holds for, and the line that asked for it."""

    condition: str
    line: SourceLine | None
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.condition}, {f'asked at {self.line}' if self.line else self.reason}"


@dataclass(frozen=True)
class BakedValue:
    """A value of the example that became part of the graph: ``.item()``, ``bool()`` and their like."""

    function: str
    value: str
    line: SourceLine | None

    def __str__(self) -> str:
        return f"{self.function.strip('_')} gave {self.value}" + (f" at {self.line}" if self.line else "")


@dataclass(frozen=True)
class FailedRung:
    """A failed way of capturing, and the reason."""

    rung: str
    reason: str
    line: SourceLine | None = None
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.rung}: {self.reason}" + (f" (at {self.line})" if self.line else "")


@dataclass(frozen=True)
class CaptureReport:
    """The origin of a graph module; it lies in ``gm.meta["fxopt"]``.

    - ``rung``: ``plain`` (torch.fx itself), ``symbolic``, ``fixed`` or ``real`` sizes, or ``given``;
    - ``free``: each free size under its readable name, and its places;
    - ``fixed``: conditions on the other sizes, each with the line of the model that asked;
    - ``baked``: values of the example that became constants (only on the ``real`` rung);
    - ``verified``: whether the graph was replayed against the model, at the example and at other sizes;
    - ``checks``: the conditions that every call of the graph module is checked for;
    - ``temporary``: its buffers outside its state;
    - ``example``: the free sizes as they were in the example.
    """

    rung: str
    free: dict[str, str] = field(default_factory=dict)
    fixed: tuple[FixedSize, ...] = ()
    baked: tuple[BakedValue, ...] = ()
    seconds: float = 0.0
    verified: bool = False
    notes: tuple[str, ...] = ()
    tried: tuple[FailedRung, ...] = ()
    checks: tuple[Check, ...] = ()
    temporary: tuple[str, ...] = ()
    example: dict[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        free = ", ".join(f"{name} ({place})" for name, place in self.free.items()) or "no size"
        parts = [f"{self.rung}, free: {free}"]
        parts += [f"fixed: {', '.join(map(str, self.fixed))}"] if self.fixed else []
        parts += [f"constants: {', '.join(map(str, self.baked))}"] if self.baked else []
        parts += ["compared with the model"] if self.verified else []
        return f"CaptureReport({'; '.join([*parts, *self.notes])})"


class RecordingError(FxoptError, RuntimeError):
    """A rung of the ladder met something that it cannot write down; `remedy` is the one that may help."""

    def __init__(self, message: str, line: SourceLine | None = None, remedy: str = "") -> None:
        super().__init__(message)
        self.line, self.remedy = line, remedy


class CaptureCancelledError(CancelledError):
    """The one who is told of the progress asked to end the capture."""


class CaptureError(FxoptError, RuntimeError):
    """Every way of capturing the model failed; `rungs` says why for each, `partial` is the graph up to there."""

    def __init__(
        self,
        subject: str,
        rungs: tuple[FailedRung, ...] = (),
        remedies: tuple[str, ...] = (),
        partial: GraphModule | None = None,
    ) -> None:
        self.subject, self.rungs, self.remedies, self.partial = subject, rungs, remedies, partial
        super().__init__(self._text())

    @property
    def line(self) -> SourceLine | None:
        """The line of the model where the last rung stopped, which asked for the least; the remedies are for it."""
        return next((rung.line for rung in reversed(self.rungs) if rung.line is not None), None)

    def _text(self) -> str:
        parts = [self.subject]
        parts += [textwrap.indent(str(rung), "  ") for rung in self.rungs]
        if self.line is not None and self.line.text:
            parts.append(f"The model's line: {self.line.text}")
        if self.partial is not None:
            names = [node.name for node in self.partial.graph.nodes if node.op != "output"]
            parts.append(f"The graph up to there has {len(names)} nodes and ends in {', '.join(names[-3:])}.")
        if self.remedies:
            parts.append("What to try: " + "; ".join(self.remedies) + ".")
        return "\n".join(parts)


class ExampleRefusedError(CaptureError):
    """The model itself raises on the example, before any capture."""
