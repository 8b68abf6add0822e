"""Fake tensors: they have a shape, a dtype and a device, but no memory."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv


def fake_mode(shape_env: ShapeEnv | None = None) -> FakeTensorMode:
    """Return a mode of fake tensors beside real ones, in which it is an error to ask for the memory of one.

    By default torch hands out address 0, and code that reads there (DLPack, a kernel of its own) ends the process.
    """
    mode = FakeTensorMode(shape_env=shape_env, allow_non_fake_inputs=True)
    mode._allow_unsafe_data_ptr_access = False
    return mode


@contextmanager
def quiet() -> Iterator[None]:
    """Silence torch's log of this thread's failures on fake tensors: each is an answer here, and is reported."""
    mine = threading.get_ident()
    log = logging.getLogger("torch._subclasses.fake_tensor")

    def others(record: logging.LogRecord) -> bool:
        return record.thread != mine

    log.addFilter(others)
    try:
        yield
    finally:
        log.removeFilter(others)
