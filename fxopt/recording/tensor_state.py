"""What a tensor is at one moment: where its numbers lie, how often they were written to, and a few of them.

An in-place operation raises the version of a tensor, except through ``.data`` or another library. Those are
noticed by looking at some of the numbers, so a write to a few numbers through ``.data`` can escape; a copy shows all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

_LOOKED_AT = 8


@dataclass(frozen=True, eq=False, slots=True)
class TensorState:
    """A parameter or buffer as it was; see `TensorState.of`."""

    path: str
    tensor: torch.Tensor
    requires_grad: bool
    numbers: torch.Tensor = field(repr=False)
    """Shares memory with the tensor as it was, so it still leads there when ``.data`` is set to other memory."""
    version: int
    sample: list[Any] = field(repr=False)
    copied: torch.Tensor | None = field(repr=False)

    @classmethod
    def of(cls, path: str, tensor: torch.Tensor, copy: bool) -> TensorState:
        numbers = tensor.detach()
        copied = numbers.clone() if copy else None
        return cls(path, tensor, tensor.requires_grad, numbers, _version(tensor), _sample(numbers), copied)

    @property
    def was_moved(self) -> bool:
        """Whether ``.data`` was set, so that the tensor has other memory, or another dtype, shape or device."""
        return not _is_same_memory(self.tensor, self.numbers)

    @property
    def was_written(self) -> bool:
        """Whether numbers were written over in the memory that the tensor had."""
        if self.copied is not None:
            return not same_bytes(self.copied, self.numbers)
        # the version is that of the tensor and of all its views, and setting .data leaves it alone
        return _version(self.tensor) != self.version or not _is_same_sample(_sample(self.numbers), self.sample)

    @property
    def has_changed(self) -> bool:
        return self.tensor.requires_grad != self.requires_grad or self.was_moved or self.was_written

    def replacement(self) -> torch.Tensor:
        """A tensor of the same kind that is as this one is now, with memory of its own where this one is put back."""
        numbers = self.tensor.detach()
        if self.was_written and not self.was_moved:
            numbers = numbers.clone()
        if isinstance(self.tensor, nn.Parameter):
            return nn.Parameter(numbers, requires_grad=self.tensor.requires_grad)
        return numbers.requires_grad_(self.tensor.requires_grad)

    def restore(self) -> bool:
        """Put the tensor back.

        Returns:
            whether its numbers are what they were.
        """
        written = self.was_written
        if written and self.copied is not None:
            self.numbers.copy_(self.copied)
        if self.was_moved:
            self.tensor.data = self.numbers
        if self.tensor.is_leaf and self.tensor.requires_grad != self.requires_grad:
            self.tensor.requires_grad_(self.requires_grad)
        return self.copied is not None or not written


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _is_plain(tensor: torch.Tensor) -> bool:
    return type(tensor) in (torch.Tensor, nn.Parameter) and tensor.layout == torch.strided and not tensor.is_meta


def _is_same_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    if (a.dtype, a.device, a.shape, a.layout) != (b.dtype, b.device, b.shape, b.layout):
        return False
    if not _is_plain(a) or not _is_plain(b):
        return True
    return a.data_ptr() == b.data_ptr() and a.stride() == b.stride()


def _sample(tensor: torch.Tensor) -> list[Any]:
    """Some of the numbers; none where a look would be slow, or torch has none."""
    if not tensor.is_cpu or not _is_plain(tensor) or tensor.is_quantized or not tensor.numel():
        return []
    if not tensor.is_contiguous():
        return [tensor[(0,) * tensor.dim()].item()]
    numbers: list[Any] = tensor.view(-1)[:: max(1, tensor.numel() // _LOOKED_AT)].tolist()
    return numbers


def _is_same_sample(a: list[Any], b: list[Any]) -> bool:
    return a == b or repr(a) == repr(b)  # as text, NaN equals NaN


def same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Check that two tensors of one kind have the same bits, so that NaN equals NaN."""
    if not _is_plain(a) or a.is_quantized:
        return bool(torch.equal(a, b))
    return torch.equal(a.contiguous().view(-1).view(torch.uint8), b.contiguous().view(-1).view(torch.uint8))
