"""Large runs: each in a process of its own, which ends with its visitor, at Cancel, and at its limits.

A run ends between two calls of torch, which is soon enough where a call takes a moment. In a large run a single call
may take a minute, and only the end of its process ends it. The same holds of a model that is built from a folder, which
may come from anyone: a dry run tells how large it is, and a large one is built elsewhere, in memory that the server
then reads.

Outside Linux all of it is done in the server, where a call of torch runs to its end.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from torch import nn
from torch.fx import GraphModule

from fxopt.errors import CancelledError, ModelError, remarks, warn
from fxopt.evidence import Demand
from fxopt.models import Inputs, LocalFolder, ModelSource
from fxopt.models.dry_run import Fit
from fxopt.process.forked import can_fork, in_fork
from fxopt.process.locks import free_in_forks
from fxopt.process.news import news_to, tell
from fxopt.process.shared_memory import SharedMemory
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

_BUILD_SLACK = 10**9
"""Beside the tensors of a model under construction: the rest of it, and address space that is never written to."""
_ONE_LARGE = free_in_forks(threading.Lock())
_SECONDS_BETWEEN_LOOKS = 0.1

CANNOT_LEAVE = (ValueError, TypeError, AttributeError, pickle.PicklingError)
"""Raised by pickle for what cannot leave its process, such as a lambda or a pointer of ctypes."""

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


def built_apart(source: ModelSource) -> nn.Module:
    """Return the model of `source`; that of a folder with large weights or a large config, in a process of its own.

    Its tensors come back in the memory in which that process has made them. A model that cannot leave its process is
    built in this one.

    Raises:
        ModelError: see `ModelSource.build`.
        CancelledError: the listener to the news asked for the end.
    """
    if not can_fork() or not isinstance(source, LocalFolder):
        return source.build()
    fit = source.checked_fit()
    if fit.building_bytes <= LARGE_BYTES and source.is_ordinary:
        return source.build(fit)
    _enter_the_line()
    try:
        return _built_in_fork(source, fit)
    finally:
        _ONE_LARGE.release()


def _enter_the_line() -> None:
    """Wait until no other large model is being built: each takes the memory that it finds free."""
    while not _ONE_LARGE.acquire(timeout=_SECONDS_BETWEEN_LOOKS):
        tell("waiting for another model")


def _built_in_fork(source: LocalFolder, fit: Fit) -> nn.Module:
    there = SharedMemory(fit.building_bytes + _BUILD_SLACK)

    def work(stage: Stage) -> _Built:
        with news_to(stage), remarks() as made:
            model = source.build(fit)
        try:
            return _Built(there.packed(model), tuple(made))
        except ModelError:
            raise
        except CANNOT_LEAVE:
            return _Built(None, tuple(made))

    def listen(stage: str) -> bool:
        try:
            tell(stage)
        except CancelledError:
            return False
        return True

    found = in_fork(work, listen, "building it", memory=2 * fit.building_bytes + _BUILD_SLACK, seconds=MOST_SECONDS,
                    remedy="choose a smaller model")  # fmt: skip
    tell("building it")
    if found.content is None:
        return source.build(fit)
    for remark in found.remarks:
        warn(remark)
    return there.unpacked(found.content)


def inputs_apart(source: ModelSource, model: nn.Module, batch: int, sequence: int | None, progress: Stage) -> Inputs:
    """Return inputs for `model`; those for a folder, which may take runs of its model, from a process of their own.

    Inputs that cannot leave their process are made in this one.
    """
    if not can_fork() or not isinstance(source, LocalFolder):
        return source.inputs(model, batch, sequence)

    def work(stage: Stage) -> tuple[Inputs | None, tuple[str, ...]]:
        with news_to(stage), remarks() as made:
            inputs = source.inputs(model, batch, sequence)
        return inputs if _can_leave(inputs) else None, tuple(made)

    inputs, made = in_fork(work, progress, "making inputs", memory=_SLACK * limits.MOST_BYTES, seconds=MOST_SECONDS)
    if inputs is None:
        return source.inputs(model, batch, sequence)
    for remark in made:
        warn(remark)
    return inputs


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


@dataclass(frozen=True)
class _Built:
    """A model on its way out of a process."""

    content: bytes | None
    """All of it but its tensors; None where it cannot leave its process."""
    remarks: tuple[str, ...]


def _can_leave(value: object) -> bool:
    try:
        pickle.dumps(value)
    except CANNOT_LEAVE:
        return False
    return True


def _packed(gm: GraphModule | None, model: nn.Module) -> bytes | None:
    if gm is None:
        return None
    gm.meta.setdefault("fxopt", CaptureReport("given"))  # of a part
    try:
        return packed(gm, model)
    except CANNOT_LEAVE:
        return None
