"""Values of nodes as plain data instead of tensors: sizes as they were then, for in-place changes come later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from fxopt.graph.nodes import TensorInfo


@dataclass(frozen=True, eq=False)
class RawInfo:
    """A `TensorInfo` whose sizes may still be symbolic."""

    shape: tuple[Any, ...]
    dtype: torch.dtype
    device: torch.device


Snapshot = Any
"""A `RawInfo`, or lists, tuples and dicts of them; None for anything else."""


def snapshot(value: Any) -> Snapshot:
    if isinstance(value, torch.Tensor):
        return RawInfo(tuple(value.shape), value.dtype, value.device)
    if isinstance(value, (list, tuple)):
        return tuple(map(snapshot, value)) if any_tensor(value) else None
    if isinstance(value, dict):
        return {key: snapshot(part) for key, part in value.items()} if any_tensor(value.values()) else None
    return None


def any_tensor(values: Any) -> bool:
    return any(
        isinstance(part, torch.Tensor)
        or (isinstance(part, (list, tuple)) and any_tensor(part))
        or (isinstance(part, dict) and any_tensor(part.values()))
        for part in values
    )


def finished(value: Snapshot, text: Callable[[Any], int | str]) -> Any:
    """Return the `TensorInfo`s of a snapshot, with each size written by `text`."""
    if isinstance(value, RawInfo):
        return TensorInfo(tuple(map(text, value.shape)), value.dtype, value.device)
    if isinstance(value, tuple):
        return tuple(finished(part, text) for part in value)
    if isinstance(value, dict):
        return {key: finished(part, text) for key, part in value.items()}
    return None
