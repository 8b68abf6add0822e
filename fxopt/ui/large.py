"""Large runs: each in a process of its own, which ends with its visitor, at Cancel, and at its limits.

A run ends between two calls of torch, which is soon enough where a call takes a moment. In a large run a single call
may take a minute, and only the end of its process ends it.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from torch import nn
from torch.fx import GraphModule

from fxopt.errors import remarks, warn
from fxopt.evidence import Demand
from fxopt.process.forked import can_fork, in_fork
from fxopt.process.news import news_to
from fxopt.tracing import CaptureCancelledError, CaptureError, CaptureReport
from fxopt.tracing.stored import packed, unpacked
from fxopt.ui import limits
from fxopt.ui.job import Progress

T = TypeVar("T")

LARGE_FLOPS = 10**11
"""Work of one run, which a core does in about three seconds."""
LARGE_BYTES = 500 * 10**6
MOST_SECONDS = 600
"""Of a processor, for all that is done in one process: evidence runs the model several times."""
_SLACK = 2
"""A process may take so many times the memory that is allowed by the estimate of a run."""

Stage = Callable[[str], bool | None]


def is_large(demand: Demand | None) -> bool:
    """Return whether a run is to have a process of its own; one whose demand is unknown may be large."""
    return demand is None or demand.flops > LARGE_FLOPS or demand.peak_bytes > LARGE_BYTES


def killable(work: Callable[[Progress], T], demands: Iterable[Demand | None]) -> Callable[[Progress], T]:
    """Return `work`, to be done in a process of its own where one of the runs that it makes is large."""
    if not can_fork() or not any(map(is_large, demands)):
        return work

    def in_its_process(progress: Progress) -> T:
        return in_fork(work, progress, 0.0, memory=_SLACK * limits.MOST_BYTES, seconds=MOST_SECONDS)

    return in_its_process


def captured_apart(
    capture: Callable[[Stage], GraphModule], model: nn.Module, progress: Stage, demand: Demand | None
) -> GraphModule:
    """Return the capture of `model` that `capture` makes, in a process of its own where one run is large.

    A graph that cannot leave its process is captured in this one.

    Raises:
        CaptureCancelledError: `progress` answered False before or after it.
    """
    if not can_fork() or not is_large(demand):
        return capture(progress)

    def work(stage: Stage) -> _Capture:
        with news_to(stage), remarks() as made:
            try:
                gm = capture(stage)
            except CaptureError as error:
                partial, error.partial = error.partial, None
                return _Capture(_packed(partial, model), tuple(made), error)
        return _Capture(_packed(gm, model), tuple(made))

    def is_wanted(stage: str) -> None:
        if progress(stage) is False:
            raise CaptureCancelledError(f"the capture of {type(model).__name__} was cancelled at: {stage}")

    is_wanted("beginning")
    found = in_fork(work, progress, "beginning", memory=_SLACK * limits.MOST_BYTES, seconds=MOST_SECONDS)
    is_wanted("ending")
    gm = unpacked(found.content, model) if found.content is not None else None
    if found.error is not None:
        found.error.partial = gm
        raise found.error
    if gm is None:
        return capture(progress)
    for remark in found.remarks:
        warn(remark)
    return gm


@dataclass(frozen=True)
class _Capture:
    """A capture on its way out of a process."""

    content: bytes | None
    """The graph, or the part of it that was recorded; None where it cannot leave its process."""
    remarks: tuple[str, ...]
    error: CaptureError | None = None


def _packed(gm: GraphModule | None, model: nn.Module) -> bytes | None:
    if gm is None:
        return None
    gm.meta.setdefault("fxopt", CaptureReport("given"))  # of a part
    try:
        return packed(gm, model)
    except (ValueError, TypeError, AttributeError, pickle.PicklingError):
        return None
