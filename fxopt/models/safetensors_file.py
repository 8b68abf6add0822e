"""Reads safetensors files."""

from __future__ import annotations

from pathlib import Path

from safetensors.torch import load_file
from torch import Tensor


def load_aligned(file: Path) -> dict[str, Tensor]:
    """Return the tensors of a file, each in memory of its own.

    As the file lays them, tensors begin at any multiple of their element's size, and a matrix product on
    a CPU can round differently from one that begins at a multiple of 16 bytes. A copy of such a model
    would then differ from it in the last bits.
    """
    return {name: tensor.clone() for name, tensor in load_file(file).items()}
