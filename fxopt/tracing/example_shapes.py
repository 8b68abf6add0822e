"""Other shapes of one made input: models of one kind differ in how they take patches, channels and mel bins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from fxopt.tracing.example import Example

WIDTHS = (
    "input_feat_per_channel", "feature_projection_input_dim", "num_mel_bins", "input_feat_size", "n_mels",
    "feature_size", "input_size", "input_dim", "input_channels",
)  # fmt: skip
"""Settings that say how many numbers a moment of sound has."""

_FRAMES = 400
"""A multiple of the lengths to which encoders of sound are known to cut their input."""
_SAMPLES = 7680


def other_shapes(example: Example, name: str, value: Any) -> Iterator[Tensor]:
    """Yield other shapes of `value`, the likelier first; none for an input whose shape is not in doubt."""
    if not isinstance(value, Tensor):
        return
    if name in ("pixel_values", "pixel_values_videos"):
        yield from _of_patches(example, value) if value.dim() == 2 else _of_images(value)
    elif name == "input_values" and value.dim() == 2:
        yield value[:, None]
        yield value.repeat(1, 2)[:, :_SAMPLES]
        width = example.known_or(None, "hidden_size")  # of a model without the layers that listen
        if isinstance(width, int) and value.shape[1] > 4 * width:
            yield value[:, : 4 * width].reshape(len(value), 4, width)
    elif name == "input_features" and value.dim() == 3:
        yield from _of_spectrogram(example, value)


def _of_patches(example: Example, value: Tensor) -> Iterator[Tensor]:
    """Yield patches with their pixels in rows and columns, of one image after another, or of two frames."""
    size = example.known_or(None, "patch_size")
    if isinstance(size, int) and value.shape[1] % (size * size) == 0:
        squares = value.reshape(len(value), -1, size, size)
        yield squares
        yield squares[None]
    yield torch.cat([value, value], 1)


def _of_images(value: Tensor) -> Iterator[Tensor]:
    """Yield one image or frame to a row, for a model that takes several."""
    if value.dim() == 4:
        yield value[:, None]
        yield torch.stack([value, value], 1)
    elif value.dim() == 5 and value.shape[1] == 1:
        yield value[:, 0]


def _of_spectrogram(example: Example, value: Tensor) -> Iterator[Tensor]:
    """Yield bins before frames, bins under another name, and a number of frames that many divide."""
    yield value.transpose(1, 2).contiguous()
    widths = [width for width in (example.known_or(None, name) for name in WIDTHS) if isinstance(width, int)]
    for width in dict.fromkeys(widths):
        frames = value.new_zeros(len(value), _FRAMES, width)
        noise = value.reshape(len(value), -1)
        frames += noise[:, torch.arange(_FRAMES * width) % noise.shape[1]].reshape(frames.shape)
        yield frames[:, : value.shape[1]].contiguous()
        yield frames
        yield frames.transpose(1, 2).contiguous()
