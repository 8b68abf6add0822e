"""Fake tensors: they have a shape, a dtype and a device, but no memory."""

from __future__ import annotations

from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv


def fake_mode(shape_env: ShapeEnv | None = None) -> FakeTensorMode:
    """Return a mode of fake tensors beside real ones, in which it is an error to ask for the memory of one.

    By default torch hands out address 0, and code that reads there (DLPack, a kernel of its own) ends the process.
    """
    mode = FakeTensorMode(shape_env=shape_env, allow_non_fake_inputs=True)
    mode._allow_unsafe_data_ptr_access = False
    return mode
