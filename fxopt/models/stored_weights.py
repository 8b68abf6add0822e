"""The weights of safetensors files by their headers: names, shapes and types, before a number of them is read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from fxopt.errors import ModelError
from fxopt.process.memory import check_memory
from fxopt.process.news import tell

_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
"""The real dtypes that a model here can be built of, by the names of the file format."""

PRECISE = {torch.float64, torch.float32, torch.float16, torch.bfloat16}
"""Types that weights are trained in and computed with; others hold counts, or quantized weights."""


@dataclass(frozen=True)
class StoredTensor:
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements * self.dtype.itemsize


Stored = Mapping[str, StoredTensor]


def headers_of(files: Iterable[Path]) -> dict[str, StoredTensor]:
    """Return the tensors of some files by name.

    Raises:
        ModelError: a file is broken, holds numbers of a dtype outside `_DTYPES`, or more of them than memory holds.
    """
    files = list(files)
    check_memory(f"{files[0].parent}: its weights take", sum(file.stat().st_size for file in files))
    found: dict[str, StoredTensor] = {}
    for file in files:
        try:
            with safe_open(file, framework="pt") as opened:
                for name in opened.keys():  # noqa: SIM118  it is no dict
                    part = opened.get_slice(name)
                    found[name] = StoredTensor(tuple(part.get_shape()), _dtype(file, name, part.get_dtype()))
        except (SafetensorError, OSError, ValueError) as error:
            if isinstance(error, ModelError):
                raise
            raise _broken(file, error) from error
    return found


def tensors_of(files: Iterable[Path]) -> dict[str, Tensor]:
    """Return the tensors of some files, each in memory of its own, as from `load_aligned`; report how many are read."""
    found: dict[str, Tensor] = {}
    for file in files:
        try:
            with safe_open(file, framework="pt") as opened:
                for name in opened.keys():  # noqa: SIM118  it is no dict
                    tell(f"reading its weights, {len(found) + 1}")
                    found[name] = opened.get_tensor(name).clone()
        except (SafetensorError, OSError, ValueError) as error:
            raise _broken(file, error) from error
    return found


_PICKLED = (b"PK\x03\x04", b"\x80\x02}", b"\x80\x02\x8a", b"\x80\x04\x95", b"\x80\x05\x95")
"""The first bytes of files of `torch.save` and `pickle`, which come under the name of safetensors too."""


def _broken(file: Path, error: Exception) -> ModelError:
    with contextlib.suppress(OSError), file.open("rb") as opened:
        if opened.read(4).startswith(_PICKLED):
            return ModelError(
                f"{file}: it is a pickle, as of torch.save, under this name. It can run code when it is read, so it "
                "stays unread; save safetensors with model.save_pretrained(folder)"
            )
    return ModelError(f"{file}: it is broken or cut short ({error}); fetch it again")


def _dtype(file: Path, name: str, stored: str) -> torch.dtype:
    if stored not in _DTYPES:
        kind = "complex numbers" if stored.startswith("C") else f"numbers of type {stored}"
        raise ModelError(f"{file}: {short(name)} holds {kind}; the models that can be opened have real ones")
    return _DTYPES[stored]


def short(name: str) -> str:
    """Return a name as messages show it: names of weights may have any length."""
    return name if len(name) <= 120 else f"{name[:100]} … ({len(name):,} characters)"
