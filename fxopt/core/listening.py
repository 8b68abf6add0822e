"""The one who is told of each call of a transformation in this thread, if anyone is: `fxopt.record`."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeAlias

from torch.fx import GraphModule

Call: TypeAlias = Callable[[], GraphModule]
Listener: TypeAlias = Callable[[str, GraphModule, Call], GraphModule]
"""It is given the name of a transformation, its graph module and the call, and returns the result of the call."""

LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


def told(name: str, gm: GraphModule, call: Call) -> GraphModule:
    """Make a call of the transformation `name` on `gm`, through the listener if there is one.

    Calls within it are parts of it, of which nobody is told.
    """
    listener = LISTENER.get()
    if listener is None:
        return call()
    token = LISTENER.set(None)
    try:
        return listener(name, gm, call)
    finally:
        LISTENER.reset(token)
