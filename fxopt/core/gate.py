"""Transactions on a graph module: one at a time, each made whole or rolled back, at any exception at any time.

A `KeyboardInterrupt`, or an exception that another thread raises in this one, can come between any two lines. So a
transaction takes a `Savepoint` before it begins, and any exception leads back to it, however far the act came.

One thread at a time acts on a graph module; others wait. Calls of the graph module, its copies and pickles are outside
of this: make them while all other threads leave it alone. So is a `GraphIndex` that is kept from one act to the next.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeAlias, TypeVar

import torch
from torch.fx import GraphModule

from fxopt.core.saving import choose_tracer
from fxopt.errors import expect_graph
from fxopt.graph.index import GraphIndex
from fxopt.graph.marks import LEDGER
from fxopt.process.ending import ended
from fxopt.process.locks import free_in_forks
from fxopt.recording.module_state import ObjectState
from fxopt.recording.savepoint import Savepoint

T = TypeVar("T")

_TRIES = 100

Prepare: TypeAlias = Callable[[GraphModule], Callable[[], object] | None]


def transact(
    gm: GraphModule,
    do: Callable[[], T],
    prepare: Prepare,
    *,
    index: GraphIndex | None = None,
    keep: tuple[Any, ...] = (),
    saves: bool = True,
    part: bool = False,
) -> T:
    """Run `do` as a transaction on `gm`; see `fxopt.core.ledger.act`.

    Args:
        prepare: registers the ledger, which changes nothing else; returns a further preparation, which may.
    """
    gate = _gate_of(gm)
    if gate.is_open_here:
        return gate.within(gm, do, prepare, index) if saves and not part else do()

    def alone() -> T:
        gate.begin(index, keep)
        if saves:
            gate.save(gm, prepare)
        with _outside_inference_mode() if torch.is_inference_mode_enabled() else nullcontext():
            result = do()
        gate.is_done = True
        return result

    return ended(alone, lambda: gate.end(gm))


@contextmanager
def _outside_inference_mode() -> Iterator[None]:
    """Let new tensors be ordinary ones within the block: those of inference mode cannot train, and have no version."""
    with torch.inference_mode(False), torch.no_grad():
        yield


def about_to_change(gm: GraphModule) -> None:
    """Tell the act under way that `gm` is about to change: its latest savepoint is no longer the present state."""
    _gate_of(gm).is_fresh = False


def finish(gm: GraphModule) -> GraphModule:
    """Lint and recompile."""
    about_to_change(gm)
    gm.graph.lint()
    gm.recompile()
    return gm


def is_acting(gm: GraphModule) -> bool:
    """Check that this thread is within an act on `gm`."""
    return _gate_of(gm).is_open_here


class _Gate:
    """Admits one thread at a time to a graph module, and holds the states that its acts go back to."""

    def __init__(self) -> None:
        self._lock = free_in_forks(threading.RLock())
        self._thread: int | None = None
        self._index: GraphIndex | None = None
        self._kept: list[ObjectState] = []
        self._first: Savepoint | None = None
        self._latest: Savepoint | None = None
        self.is_fresh = False
        """Whether the graph module is unchanged since the latest savepoint."""
        self.is_done = False

    @property
    def is_open_here(self) -> bool:
        return self._thread == threading.get_ident()

    def begin(self, index: GraphIndex | None, keep: tuple[Any, ...]) -> None:
        self._lock.acquire()
        self.is_done = self.is_fresh = False
        self._index, self._kept = index, []
        self._first = self._latest = None
        self._thread = threading.get_ident()
        self._kept = list(map(ObjectState.of, keep))

    def save(self, gm: GraphModule, prepare: Prepare) -> None:
        more = prepare(gm)
        self._first = self._latest = Savepoint(gm)
        self.is_fresh = more is None
        if more is not None:
            more()

    def end(self, gm: GraphModule) -> None:
        """Go back unless the act was done, and admit the next one. A further call does nothing."""
        if self.is_open_here:
            if not self.is_done:
                surely(self._go_back)
                self.is_done = True
            _take_off_empty_ledger(gm)
            self._first = self._latest = self._index = None
            self._kept = []
            self._thread = None
        if self._lock._is_owned():  # type: ignore[attr-defined]  # as `threading.Condition` asks too
            self._lock.release()

    def _go_back(self) -> None:
        _restore(self._first, self._index)
        for state in self._kept:
            state.restore()

    def within(self, gm: GraphModule, do: Callable[[], T], prepare: Prepare, index: GraphIndex | None) -> T:
        """Run an act that is a part of another, and goes back alone if it fails."""
        if self._latest is None or not self.is_fresh:
            prepare(gm)
            self._latest = Savepoint(gm)
            self.is_fresh = True
        start = self._latest
        try:
            return do()
        except BaseException:
            surely(lambda: _restore(start, index))
            self._latest, self.is_fresh = start, True
            raise


def _restore(to: Savepoint | None, index: GraphIndex | None) -> None:
    if to is not None:
        to.restore()
    if index is not None:
        index.renew()


def surely(act: Callable[[], object]) -> None:
    """Run a repeatable act until it ends without an interruption; then raise the first interruption.

    An error that comes back every time is raised after some tries.
    """
    first: BaseException | None = None
    for _ in range(_TRIES):
        try:
            act()
            break
        except BaseException as error:  # noqa: BLE001 - raised below
            first = first or error
    if first is not None:
        raise first


def _take_off_empty_ledger(gm: GraphModule) -> None:
    if LEDGER in gm._modules and not getattr(gm._modules[LEDGER], "entries", ()):
        del gm._modules[LEDGER]
    choose_tracer(gm)


_GATES: weakref.WeakKeyDictionary[GraphModule, _Gate] = weakref.WeakKeyDictionary()


def _gate_of(gm: GraphModule) -> _Gate:
    expect_graph(gm, "a pass")
    gate = _GATES.get(gm)
    return gate if gate is not None else _GATES.setdefault(gm, _Gate())
