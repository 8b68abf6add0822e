"""Memory that a fork fills with the tensors of a model; this process reads them there, and copies none.

The writes of this process are its own, as with any memory: a later fork that writes to the model changes its own copy
of the page alone.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, UntypedStorage, nn

from fxopt.errors import ModelError
from fxopt.process.memory import in_words

_ALIGNED = 64
"""Bytes to whose multiples tensors are aligned, as torch aligns them."""


class SharedMemory:
    """Memory of this process and of the one fork that fills it, on Linux.

    A page of it is taken when it is first written to, and the whole of it is given back once it and all tensors that
    lie in it are gone.

    Args:
        size: bytes.
    """

    def __init__(self, size: int) -> None:
        self._size = max(size, mmap.PAGESIZE)
        self._file = os.memfd_create("fxopt")
        weakref.finalize(self, os.close, self._file)
        os.ftruncate(self._file, self._size)
        self._memory = mmap.mmap(self._file, self._size)  # by now: a fork closes all files but its own
        self._end = 0
        self._places: dict[int, tuple[int, int]] = {}
        """By the address of a storage: its place here, and its bytes."""
        self._kept: list[UntypedStorage] = []
        """Storages that lie elsewhere, so that no other one gets their address."""

    def packed(self, model: nn.Module) -> bytes:
        """Move the tensors of `model` here, one by one, and return the rest of it, in a fork.

        Raises:
            ModelError: they take more memory than there is.
            pickle.PicklingError, TypeError, AttributeError: the rest cannot leave its process.
        """
        here = {}
        for tensor in _tensors_of(model):
            place = self._place_of(tensor.untyped_storage())
            moved = torch.empty(0, dtype=tensor.dtype)
            moved.set_(self._storage(*place), tensor.storage_offset(), tensor.size(), tensor.stride())
            tensor.data = moved
            here[tensor.untyped_storage().data_ptr()] = place
        self._places = here  # the memory at the old addresses is free
        stream = io.BytesIO()
        _Pickler(stream, self).dump(model)
        return stream.getvalue()

    def unpacked(self, content: bytes) -> nn.Module:
        """Return the model of `packed`, which a fork of this process has made."""
        self._memory = mmap.mmap(self._file, self._size, flags=mmap.MAP_PRIVATE)
        model: nn.Module = _Unpickler(io.BytesIO(content), self).load()
        return model

    def _place_of(self, storage: UntypedStorage) -> tuple[int, int]:
        """Return the place of a storage here, which is copied unless it is here already."""
        size = storage.nbytes()
        found = self._places.get(storage.data_ptr()) if size else (0, 0)
        if found is None:
            start = -(-self._end // _ALIGNED) * _ALIGNED
            if start + size > self._size:
                raise ModelError(f"its tensors take more than the {in_words(self._size)} of memory that were foreseen")
            self._end = start + size
            found = self._places[storage.data_ptr()] = (start, size)
            self._storage(*found).copy_(storage)
        return found

    def _storage(self, start: int, size: int) -> UntypedStorage:
        if not size:
            return UntypedStorage(0)
        return torch.frombuffer(self._memory, dtype=torch.uint8, count=size, offset=start).untyped_storage()


class _Pickler(pickle.Pickler):
    """Writes the place of each storage, in the place of its numbers."""

    def __init__(self, stream: io.BytesIO, memory: SharedMemory) -> None:
        super().__init__(stream, protocol=pickle.HIGHEST_PROTOCOL)
        self._memory = memory

    def persistent_id(self, value: Any) -> Any:
        if not torch.is_storage(value):
            return None
        untyped = value._untyped_storage if isinstance(value, torch.TypedStorage) else value
        assert isinstance(untyped, UntypedStorage)
        self._memory._kept.append(untyped)
        return (*self._memory._place_of(untyped), getattr(value, "dtype", torch.uint8))


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, memory: SharedMemory) -> None:
        super().__init__(stream)
        self._memory = memory
        self._made: dict[tuple[int, int], UntypedStorage] = {}
        """Tensors that share a storage share it here, too."""

    def persistent_load(self, found: Any) -> Any:
        start, size, dtype = found
        storage = self._made.setdefault((start, size), self._memory._storage(start, size))
        return torch.TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)


def _tensors_of(model: nn.Module) -> Iterator[Tensor]:
    """Yield the parameters and buffers whose numbers lie in memory."""
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.layout == torch.strided and tensor.device.type == "cpu" and not tensor.is_quantized:
            yield tensor
