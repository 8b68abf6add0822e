"""Tensors that a model under construction makes: the free memory is asked for before they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from fxopt.process.memory import check_memory

FACTORIES = {
    "empty", "zeros", "ones", "full", "rand", "randn", "randint", "randperm", "arange", "linspace", "logspace", "eye",
    "tensor", "empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like",
}  # fmt: skip
"""Functions of torch that make a tensor, by name: transformers replaces some of them for a while."""

_BETWEEN_LOOKS = 2**24
"""Bytes of new tensors after which the free memory is asked for again."""
_WITHOUT_DATA = ("generator", "out")
"""Arguments that a tensor on the meta device does not take."""


class MemoryWatch:
    """Asks for the free memory each time that a build has made some megabytes of tensors, and before each larger one.

    Between two looks the tensors before have been filled, so the free memory is then the rest.
    """

    def __init__(self) -> None:
        self._made = 0

    def check(self, factory: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Check that memory holds the tensor that a call of a factory makes, and another that is computed from it.

        Raises:
            ModelError: it does not.
        """
        if _is_meta(args, kwargs):
            return
        kept = {name: value for name, value in kwargs.items() if name not in _WITHOUT_DATA}
        made = factory(*args, **{**kept, "device": "meta"})
        self._made += made.numel() * made.itemsize
        if self._made > _BETWEEN_LOOKS:
            sizes = " x ".join(map(str, made.shape))
            check_memory(f"the model makes a tensor of {sizes}, and to compute with it takes", 2 * self._made)
            self._made = 0


def _is_meta(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    device = kwargs.get("device")
    if device is None:
        return bool(args) and isinstance(args[0], Tensor) and args[0].is_meta
    return torch.device(device).type == "meta"
