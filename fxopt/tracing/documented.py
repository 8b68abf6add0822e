"""Examples of inputs outside the rules, of the shape that the documentation of `forward` gives them.

The models of transformers say of each input ``of shape `(batch_size, sequence_length, feature_dim)` ``. Sizes that are
neither the batch nor a length are settings of the config under the same name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn

_LENGTHS = re.compile(r"\w*sequence_length|seq_len(gth)?|episode_length|num_boxes|\w*time\w*|num_samples|num_frames")


@dataclass(frozen=True)
class Documented:
    """The kind of tensor and the names of its dimensions, from the docstring of `forward`."""

    kind: str
    dimensions: tuple[str, ...]
    optional: bool = False

    @property
    def shape(self) -> str:
        return f"({', '.join(self.dimensions)})"


def documented(model: nn.Module, name: str) -> Documented | None:
    """Return the kind and shape of this input from the docstring; None if it gives no shape."""
    text = type(model).forward.__doc__ or ""
    found = re.search(rf"^\s*{re.escape(name)} \([`']*(?:torch\.)?(\w*Tensor)\W*of shape\W*\(([^)]*)\)(.*)", text, re.M)
    if found is None:
        return None
    return Documented(
        found[1], tuple(part.strip() for part in found[2].split(",") if part.strip()), "optional" in found[3]
    )


def tensor_of(
    what: Documented, name: str, batch: int, length: int, setting: Callable[[str], Any], generator: Generator
) -> Tensor:
    """Return a tensor of the documented shape: ones for a mask, noise, or small whole numbers.

    `setting` gives a setting of the config by its name, and raises if it is missing.
    """
    shape = [_size(dimension, batch, length, setting) for dimension in what.dimensions]
    if name.endswith("mask") or what.kind == "BoolTensor":
        return torch.ones(shape, dtype=torch.bool if what.kind == "BoolTensor" else torch.int64)
    if what.kind in ("LongTensor", "IntTensor"):
        return torch.randint(2, shape, generator=generator)
    return torch.randn(shape, generator=generator)


def _size(dimension: str, batch: int, length: int, setting: Callable[[str], Any]) -> int:
    if dimension.isdigit():
        return int(dimension)
    if dimension in ("batch_size", "bs", "batch"):
        return batch
    if _LENGTHS.fullmatch(dimension):
        return length
    return int(setting(dimension))


def parts_of(config: Any) -> Mapping[str, Any]:
    """Return the configs within a config, by name: ``text_config``, ``encoder``."""
    return {
        name: part for name, part in vars(config).items() if hasattr(part, "model_type") and hasattr(part, "to_dict")
    }
