"""Calls of modules, taken over in one thread for a while."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from torch import nn

_ONE_AT_A_TIME = threading.RLock()


@contextlib.contextmanager
def module_calls(takes: Callable[..., bool], call: Callable[..., Any]) -> Iterator[None]:
    """Send those module calls of this thread that ``takes(module, args, kwargs)`` to ``call(module, args, kwargs)``.

    Calls in other threads run as ever. Whoever else patches `nn.Module.__call__` meanwhile is left in place; what is
    left of this patch then passes every call on.
    """
    thread = threading.get_ident()
    active = True
    with _ONE_AT_A_TIME:
        kept = nn.Module.__call__

        def patched(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if active and threading.get_ident() == thread and takes(module, args, kwargs):
                return call(module, args, kwargs)
            return kept(module, *args, **kwargs)

        nn.Module.__call__ = patched  # type: ignore[method-assign]
        try:
            yield
        finally:
            active = False
            if nn.Module.__call__ is patched:
                nn.Module.__call__ = kept  # type: ignore[method-assign]
