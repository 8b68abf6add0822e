"""The state of a tensor: where its numbers lie, how they are read, and how often they were written to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn


class TensorState(NamedTuple):
    """A tensor at one moment. An in-place operation raises its version, except through ``.data`` or another library."""

    place: int
    """The address of the first number; 0 if torch keeps it secret."""
    dtype: torch.dtype
    device: torch.device
    shape: torch.Size
    layout: torch.layout
    stride: tuple[int, ...]
    requires_grad: bool
    version: int

    @classmethod
    def of(cls, tensor: torch.Tensor) -> TensorState:
        return cls(
            tensor.data_ptr() if is_plain(tensor) else 0,
            tensor.dtype,
            tensor.device,
            tensor.shape,
            tensor.layout,
            tensor.stride() if tensor.layout == torch.strided else (),
            tensor.requires_grad,
            0 if tensor.is_inference() else tensor._version,
        )

    @property
    def kind(self) -> tuple[object, ...]:
        """The state without the address and the writes."""
        return self[1:-1]

    @property
    def memory(self) -> tuple[object, ...]:
        """The address, and how the numbers there are read."""
        return self[:-2]


def is_plain(tensor: torch.Tensor) -> bool:
    """Check that `tensor` is torch's own and has its numbers in memory, by strides."""
    known = type(tensor) in (torch.Tensor, nn.Parameter) and tensor.layout == torch.strided
    return known and not tensor.is_meta and not tensor.is_nested


def counts_writes(tensor: torch.Tensor) -> bool:
    """Check that torch counts the writes to `tensor`, and tells where it lies."""
    return not tensor.is_inference() and tensor.layout == torch.strided


def tensors_held_by(value: Any) -> Iterator[torch.Tensor]:
    """Yield `value` if it is a tensor, or its parameters and buffers if it is a module."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, nn.Module):
        yield from value.parameters()
        yield from value.buffers()


def storages_of(tensors: Iterable[torch.Tensor]) -> Iterator[torch.UntypedStorage]:
    """Yield the memory of each tensor that has some, read by strides."""
    for tensor in tensors:
        if tensor.layout == torch.strided and not tensor.is_meta:
            yield tensor.untyped_storage()


def same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Check that two tensors of one kind have the same bits, so that NaN equals NaN."""
    if not is_plain(a) or a.is_quantized or not a.numel():
        return bool(torch.equal(a, b))
    flat = (each.resolve_conj().resolve_neg().contiguous().view(-1) for each in (a, b))
    return torch.equal(*(each.view(torch.uint8) for each in flat))
