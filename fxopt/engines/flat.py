"""A model that takes and returns tensors by position, as engines want it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

CONSTANTS = (int, float, bool, complex, str, type(None), torch.dtype, torch.device, torch.Size)
"""The types of plain values among inputs, which are those of each call."""


class Flat(nn.Module):
    """Compute a model for tensors by position, and return a tuple of the tensors among its outputs.

    Args:
        model: to compute; it is called in the mode that it is in.
        args, kwargs: an example of its inputs. Their numbers, texts and containers are those of each call.

    Raises:
        TypeError: an input is neither a tensor, nor a plain value, nor a container of these that torch knows.
    """

    def __init__(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__()
        self.model = model
        leaves, shape = tree_flatten((args, kwargs))
        strange = next((one for one in leaves if not isinstance(one, (Tensor, *CONSTANTS))), None)
        if strange is not None:
            raise TypeError(f"an input holds a {type(strange).__name__}, whose tensors torch does not see")
        self._constants = [None if isinstance(one, Tensor) else one for one in leaves]
        self._places = [i for i, one in enumerate(leaves) if isinstance(one, Tensor)]
        self._rebuilt = lambda leaves: tree_unflatten(leaves, shape)  # a deep copy keeps a function as it is

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        leaves = list(self._constants)
        for place, tensor in zip(self._places, tensors, strict=True):
            leaves[place] = tensor
        args, kwargs = self._rebuilt(leaves)
        return tensors_among(self.model(*args, **kwargs))

    def around(self, model: Callable[..., Any]) -> Flat:
        """Return the same around another model."""
        other = copy.copy(self)
        other._modules = {"model": model}  # type: ignore[dict-item]  # what torch.compile makes of a module is one
        return other


def tensors_among(value: Any) -> tuple[Tensor, ...]:
    """Return the tensors in inputs or outputs, in the order in which torch flattens them."""
    if isinstance(value, Tensor):
        return (value,)
    return tuple(one for one in tree_leaves(value) if isinstance(one, Tensor))
