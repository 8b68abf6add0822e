"""The memory of made inputs: foreseen by their sizes, and refused with the number before any of it is taken."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from fxopt.process.fake_tensors import fake_mode
from fxopt.process.memory import available_bytes, in_words
from fxopt.tracing.checks import InputError
from fxopt.tracing.hygiene import forget_fake_tensors

_SHARE = 4
"""The inputs may take one part in so many of the free memory, as a run takes several times their memory."""

_MOST_NUMBERS = 2**24
"""The most numbers that are run through a model only to count the features that it makes of them."""


class MemoryGuard(TorchDispatchMode):
    """Refuses a tensor that would take more than a share of the free memory, before it is allocated."""

    def __init__(self, subject: str, remedy: str) -> None:
        super().__init__()
        self.subject, self.remedy = subject, remedy

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        named = dict(zip((argument.name for argument in func._schema.arguments), args))
        size = named.get("size", kwargs.get("size"))
        if isinstance(size, (list, tuple)) and not any(isinstance(each, Tensor) for each in args):
            self._check(size, kwargs.get("dtype") or torch.get_default_dtype())
        return func(*args, **kwargs)

    def _check(self, size: Any, dtype: torch.dtype) -> None:
        needed = math.prod(size) * dtype.itemsize
        if needed > 2**24 and needed > available_bytes() // _SHARE:
            shape = " x ".join(f"{each:,}" for each in size)
            raise InputError(
                f"{self.subject} is {shape} by its config, which takes {in_words(needed)}; "
                f"{in_words(available_bytes())} of memory are free here, and a run takes several times its inputs: "
                f"{self.remedy}"
            )


def answer_of(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """Return the answer of a part of a model, without any data where its inputs are large: its sizes are asked for."""
    tensors = [value for value in values.values() if isinstance(value, Tensor)]
    if sum(tensor.numel() for tensor in tensors) <= _MOST_NUMBERS:
        return function(**values)
    try:
        with fake_mode() as mode:
            fakes = {
                name: mode.from_tensor(value) if isinstance(value, Tensor) else value for name, value in values.items()
            }
            return function(**fakes)
    finally:
        forget_fake_tensors()
