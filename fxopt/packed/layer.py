"""The module that computes a layer, an activation behind it and a sum with another tensor in one call of oneDNN."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fxopt.packed.activation import Activation
from fxopt.packed.onednn import may_compute
from fxopt.packed.weights import PackedWeight, packed_weight

MOST_FORMS = 4
"""So many packed copies of a weight are held by a module, for inputs of different sizes."""
MOST_OF_A_ROW = 2**18
"""The product of one row with so many weights takes less time than oneDNN takes to set a call up: torch computes it."""


class UnboundedError(Exception):
    """An input for which a step cannot prove that no NaN gets lost: the layer itself computes it."""


@dataclass(frozen=True)
class Step:
    """A call of a layer that was decided upon: all that follows from the kind of its inputs and from its weights."""

    compute: Callable[..., Tensor]
    """Takes input and summand, and raises `UnboundedError`."""
    bound: float = math.inf
    """The largest number, without its sign, that a result can have; finite only if it is proven to have no NaN."""


class PackedLayer(nn.Module):
    """Compute `activation(layer(x) + other)`, or without one or both of activation and sum.

    Where oneDNN cannot take a call, torch's own functions compute it: with gradients, under autocast, in another dtype
    or on another device than a CPU, on fake tensors, under `vmap`, in a trace of `torch.jit`, and by a compiler.

    Args:
        weight, bias: the parameters of the layer that this module stands for.
        activation: applied last.
        other_first: whether the sum is `other + layer(x)`, which matters only for the order of dimensions in memory.
    """

    weight: nn.Parameter
    bias: nn.Parameter | None
    most_of_a_row = MOST_OF_A_ROW

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor | None,
        activation: Activation | None = None,
        *,
        other_first: bool = False,
        training: bool = False,
    ) -> None:
        super().__init__()
        for name, tensor in (("weight", weight), ("bias", bias)):
            if tensor is None or isinstance(tensor, nn.Parameter):
                self.register_parameter(name, tensor)
            else:
                self.register_buffer(name, tensor)
        self.training = training
        self.activation = activation
        self.other_first = other_first
        self._packed: dict[Hashable, PackedWeight] = {}
        self._one_row = weight.shape[1] if weight.numel() <= self.most_of_a_row else 0
        """So many numbers of the input are one row, which torch multiplies faster; 0 where it does not."""

    def forward(self, input: Tensor, other: Tensor | None = None) -> Tensor:
        """Return `activation(layer(input) + other)`.

        Args:
            input: of the layer.
            other: the summand, added before the activation; None for no sum.
        """
        x = input  # which is named as that of torch's layers, for calls by keyword
        if torch.compiler.is_compiling():  # first, since a compiler leaves off at the other questions
            return self.by_torch(x, other)
        held = self._parameters  # where a look-up takes a third of the time of an attribute
        weight, bias = held.get("weight"), held.get("bias")
        if weight is None or (bias is None and "bias" not in held):
            weight, bias = self.weight, self.bias  # a buffer
        if not may_compute(x, weight, bias, other) or not self._takes(x, weight, other):
            return self.by_torch(x, other)
        if x.numel() == self._one_row and other is None and x.dtype is torch.float32:
            y = self._row_by_torch(x, weight, bias)
            return y if self.activation is None else self.activation.in_place(y)
        size = self._size(x)
        packed = self._packed.get(size)
        if packed is None or not packed.is_of(weight):
            packed = self._packed_for(size, x)
        return self._by_onednn(x, other, bias, packed)

    def step_for(
        self, input: Tensor, other: Tensor | None = None, *, bound: float = math.inf, other_bound: float = math.inf
    ) -> Step:
        """Return the step that computes calls with tensors like these, as long as nobody writes to the weights.

        Args:
            input, other: as of a call. They lie in memory and have the shapes, dtypes and devices of those to come.
            bound, other_bound: the bounds of all inputs and summands to come, as of `Step`.
        """
        x, weight, bias = input, self.weight, self.bias
        if not may_compute(x, weight, bias, other) or not self._takes(x, weight, other):
            return Step(self)
        if x.numel() == self._one_row and other is None and x.dtype is torch.float32:

            def row_by_torch(x: Tensor) -> Tensor:
                y = self._row_by_torch(x, weight, bias)
                return y if self.activation is None else self.activation.in_place(y)

            return Step(row_by_torch)
        bounds = bound, 0.0 if other is None else other_bound
        return self._step(x, other, bias, self._packed_for(self._size(x), x), bounds)

    def _step(
        self, x: Tensor, other: Tensor | None, bias: Tensor | None, packed: PackedWeight, bounds: tuple[float, float]
    ) -> Step:
        by_onednn = self._by_onednn

        def step(x: Tensor, other: Tensor | None = None) -> Tensor:
            return by_onednn(x, other, bias, packed)

        return Step(step)

    def _packed_for(self, size: Hashable, x: Tensor) -> PackedWeight:
        packed = packed_weight(self.weight, (*self._form, size), lambda weight: self._pack(weight, x))
        kept = {other: known for other, known in self._packed.items() if other != size and known.is_of(self.weight)}
        # another dictionary, so that copies that share this one, and other threads, are left alone
        self._packed = {**dict([*kept.items()][1 - MOST_FORMS :]), size: packed}
        return packed

    @abstractmethod
    def _layer(self, x: Tensor) -> Tensor:
        """Compute the layer alone by torch's own function."""

    @abstractmethod
    def _row_by_torch(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Compute the product of one row by torch, without the activation."""

    @abstractmethod
    def _takes(self, x: Tensor, weight: Tensor, other: Tensor | None) -> bool:
        """Check that oneDNN computes on tensors of these shapes, and lays the result in memory as torch does."""

    @abstractmethod
    def _by_onednn(self, x: Tensor, other: Tensor | None, bias: Tensor | None, packed: PackedWeight) -> Tensor:
        """Compute all by oneDNN, with the packed weight."""

    @property
    @abstractmethod
    def _form(self) -> tuple[Hashable, ...]:
        """The way in which the weight is packed, as far as the module sets it."""

    @abstractmethod
    def _size(self, x: Tensor) -> Hashable:
        """Return the rest of the way in which the weight is packed, which follows from `x`."""

    @abstractmethod
    def _pack(self, weight: Tensor, x: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Return a copy of the weight that is packed for `x`; in a tuple, with the tensors that it needs beside it."""

    def by_torch(self, x: Tensor, other: Tensor | None = None) -> Tensor:
        """Compute all by torch's own functions, as before the layer was packed."""
        y = self._layer(x)
        if other is not None:
            y = other + y if self.other_first else y + other
        return y if self.activation is None else self.activation(y)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the packed copy out of copies and pickles: it follows from the weight."""
        return {**self.__dict__, "_packed": {}}

    def extra_repr(self) -> str:
        return "" if self.activation is None else f", activation={self.activation}"
