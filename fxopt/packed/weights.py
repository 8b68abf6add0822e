"""Packed copies of weights: one for each weight and form, for as long as a module uses it."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import torch
from torch import Tensor

from fxopt.packed.bounds import is_bounded


@dataclass(frozen=True, eq=False)  # equality would compare tensors
class PackedWeight:
    """A copy of a weight, in the order in which oneDNN reads it."""

    tensor: Tensor
    source: Tensor
    """Shares memory with the weight as it was, so that its address is not given to another one."""
    version: int
    is_bounded: bool
    """As of `fxopt.packed.bounds`."""
    beside: tuple[Tensor, ...] = ()
    """Tensors that follow from the weight as well, as the scales of its integers."""

    def is_of(self, weight: Tensor) -> bool:
        """Check that `weight` is the one that was packed, unwritten since.

        A write through ``.data`` raises no version, as everywhere in torch, and so goes unnoticed.
        """
        source = self.source
        return (
            weight._version == self.version
            and weight.data_ptr() == source.data_ptr()
            and weight.dtype is source.dtype
            and weight.shape == source.shape
            and weight.stride() == source.stride()
        )


_KNOWN: weakref.WeakValueDictionary[Hashable, PackedWeight] = weakref.WeakValueDictionary()
_PACKING = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_PACKING._at_fork_reinit)  # type: ignore[attr-defined]  # as of Python's own locks


def packed_weight(
    weight: Tensor, form: Hashable, pack: Callable[[Tensor], Tensor | tuple[Tensor, ...]]
) -> PackedWeight:
    """Return the packed copy of `weight`, the same for all who ask while one of them holds it.

    Args:
        form: tells the ways apart in which one weight may be packed.
        pack: makes the copy, or a tuple of the copy and the tensors beside it.
    """
    # memory, shape, strides and version are the key: a parameter that shares them holds the same numbers
    key = (weight.data_ptr(), weight._version, weight.dtype, tuple(weight.shape), weight.stride(), form)
    with _PACKING:
        known = _KNOWN.get(key)
        if known is None or not known.is_of(weight):
            with torch.inference_mode(False), torch.no_grad():
                source = weight.detach()
                packed = pack(source)
                tensor, *beside = packed if isinstance(packed, tuple) else (packed,)
                known = PackedWeight(tensor, source, weight._version, is_bounded(source), tuple(beside))
            _KNOWN[key] = known
        return known
