"""Calls of modules, taken over in one thread for a while."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

from torch import nn

from fxopt.process.locks import free_in_forks

Taker = Callable[[nn.Module, Any, Any], Any]

MODULE_CALL = nn.Module.__call__
"""Of torch itself."""

TRACING = free_in_forks(threading.RLock())
"""Held while torch.fx traces: its tracer patches module calls for itself, and takes any later patch away with its own.

Rules hold it as well, since they need all calls, for as short a time.
"""

_taker: ContextVar[Taker | None] = ContextVar("taker", default=None)


@contextlib.contextmanager
def module_calls(taker: Taker) -> Iterator[None]:
    """Offer the module calls of this thread to ``taker(module, args, kwargs)`` first.

    Where it gives NotImplemented the call is made as ever, as are those of other threads.
    """
    token = _taker.set(taker)
    try:
        with patched():
            yield
    finally:
        _taker.reset(token)


@contextlib.contextmanager
def patched() -> Iterator[None]:
    """Make ready for `module_calls`, which costs about 0.2 ms: Python tells all subclasses of `nn.Module`.

    All threads share one patch, which goes with the last that needs it. Where something else, such as torch's own
    tracer, patched on top of it meanwhile, it stays and passes every call on.
    """
    need = object()
    try:
        try:
            _patch.enter(need)
            yield
        finally:
            _patch.leave(need)
    finally:
        _patch.leave(need)  # once more, for the case that the first was interrupted


class _Patch:
    """The function in the place of ``nn.Module.__call__``, and those who need it. It is whole at any interruption."""

    def __init__(self) -> None:
        self.lock = free_in_forks(threading.RLock())
        self.needs: set[object] = set()
        self.kept: Callable[..., Any] = MODULE_CALL

        def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            taker = _taker.get()
            answer = NotImplemented if taker is None else taker(module, args, kwargs)
            return self.kept(module, *args, **kwargs) if answer is NotImplemented else answer

        self.call = call

    def enter(self, need: object) -> None:
        self.lock.acquire()
        self.needs.add(need)
        current: Any = nn.Module.__call__
        if len(self.needs) == 1 and current is not self.call:
            self.kept = current
            nn.Module.__call__ = self.call  # type: ignore[method-assign]
        self.lock.release()

    def leave(self, need: object) -> None:
        """Take a need away, and the patch with the last. A second call does nothing."""
        if not self.lock._is_owned():  # type: ignore[attr-defined]  # it is where `enter` or `leave` was interrupted
            if need not in self.needs:
                return
            self.lock.acquire()
        self.needs.discard(need)
        current: Any = nn.Module.__call__
        if not self.needs and current is self.call:
            nn.Module.__call__ = self.kept  # type: ignore[method-assign]
        self.lock.release()


_patch = _Patch()
