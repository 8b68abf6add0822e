"""Calls of modules, taken over in one thread for a while."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

from torch import nn

Taker = Callable[[nn.Module, Any, Any], Any]

MODULE_CALL = nn.Module.__call__
"""Of torch itself."""

TRACING = threading.RLock()
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
    _patch.enter()
    try:
        yield
    finally:
        _patch.leave()


class _Patch:
    """The function in the place of ``nn.Module.__call__``, and how many need it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0
        self.kept: Callable[..., Any] = MODULE_CALL

        def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            taker = _taker.get()
            answer = NotImplemented if taker is None else taker(module, args, kwargs)
            return self.kept(module, *args, **kwargs) if answer is NotImplemented else answer

        self.call = call

    def enter(self) -> None:
        with self.lock:
            self.users += 1
            current: Any = nn.Module.__call__
            if self.users == 1 and current is not self.call:
                self.kept = current
                nn.Module.__call__ = self.call  # type: ignore[method-assign]

    def leave(self) -> None:
        with self.lock:
            self.users -= 1
            current: Any = nn.Module.__call__
            if self.users == 0 and current is self.call:
                nn.Module.__call__ = self.kept  # type: ignore[method-assign]


_patch = _Patch()
