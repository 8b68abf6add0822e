"""Snapshots of tensors: the state of a tensor, a few of its numbers, and the memory to put it back to.

Writes through ``.data`` or by another library, which raise no version, are noticed by looking at some of the numbers,
so a write to a few numbers can escape; a copy shows all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from fxopt.graph.tensor_state import TensorState, is_plain, same_bytes

_LOOKED_AT = 8


@dataclass(frozen=True, eq=False, slots=True)
class TensorSnapshot:
    """A parameter or buffer as it was; see `TensorSnapshot.of`."""

    path: str
    tensor: torch.Tensor
    state: TensorState
    numbers: torch.Tensor = field(repr=False)
    """Shares memory with the tensor as it was, so it still leads there when ``.data`` is set to other memory."""
    sample: list[Any] = field(repr=False)
    copied: torch.Tensor | None = field(repr=False)

    @classmethod
    def of(cls, path: str, tensor: torch.Tensor, copy: bool) -> TensorSnapshot:
        numbers = tensor.detach()
        return cls(path, tensor, TensorState.of(tensor), numbers, _sample(numbers), numbers.clone() if copy else None)

    @property
    def was_moved(self) -> bool:
        """Whether ``.data`` was set, so that the tensor has other memory, or another dtype, shape or device."""
        return TensorState.of(self.tensor).memory != self.state.memory

    @property
    def was_written(self) -> bool:
        """Whether numbers were written over in the memory that the tensor had."""
        if self.copied is not None:
            return not same_bytes(self.copied, self.numbers)
        # the version is that of the tensor and of all its views, and setting .data leaves it alone
        written = TensorState.of(self.tensor).version != self.state.version
        return written or not _is_same_sample(_sample(self.numbers), self.sample)

    @property
    def has_changed(self) -> bool:
        return self.tensor.requires_grad != self.state.requires_grad or self.was_moved or self.was_written

    def replacement(self) -> torch.Tensor:
        """Return a tensor that is as this one is now, with memory of its own where this one is put back."""
        numbers = self.tensor.detach()
        if self.was_written and not self.was_moved:
            numbers = numbers.clone()
        if isinstance(self.tensor, nn.Parameter):
            return nn.Parameter(numbers, requires_grad=self.tensor.requires_grad)
        return numbers.requires_grad_(self.tensor.requires_grad)

    def restore(self) -> bool:
        """Put the tensor back.

        Returns:
            whether its numbers are the old ones.
        """
        written = self.was_written
        if written and self.copied is not None:
            self.numbers.copy_(self.copied)
        if self.was_moved:
            self.tensor.data = self.numbers
        if self.tensor.is_leaf and self.tensor.requires_grad != self.state.requires_grad:
            self.tensor.requires_grad_(self.state.requires_grad)
        return self.copied is not None or not written


def _sample(tensor: torch.Tensor) -> list[Any]:
    """Return some of the numbers; none where a look would be slow, or torch has none."""
    if not tensor.is_cpu or not is_plain(tensor) or tensor.is_quantized or not tensor.numel():
        return []
    if not tensor.is_contiguous():
        return [tensor[(0,) * tensor.dim()].item()]
    numbers: list[Any] = tensor.view(-1)[:: max(1, tensor.numel() // _LOOKED_AT)].tolist()
    return numbers


def _is_same_sample(a: list[Any], b: list[Any]) -> bool:
    return a == b or repr(a) == repr(b)  # as text, NaN equals NaN
