"""Examples of sound: waveforms and spectrograms."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from fxopt.tracing.documented import documented
from fxopt.tracing.example import Example
from fxopt.tracing.example_shapes import WIDTHS


def waveform(example: Example, generator: Generator) -> Tensor:
    if hasattr(example.config, "num_mel_bins") and hasattr(example.config, "max_length"):
        shape = (example.batch, example.config.max_length, example.config.num_mel_bins)
        return torch.randn(shape, generator=generator)
    what = documented(example.model, "input_values")
    if what is not None and len(what.dimensions) == 3:  # an audio codec
        channels = example.known_or(1, "audio_channels")
        return torch.randn(example.batch, channels, 7680 * max(1, example.sequence // 8), generator=generator)
    return torch.randn(example.batch, example.samples, generator=generator)


def spectrogram(example: Example, generator: Generator) -> Tensor:
    bins = example.known_or(None, "num_mel_bins")
    if bins is not None and hasattr(example.config, "max_source_positions"):
        frames = 2 * example.config.max_source_positions  # whisper takes exactly 30 seconds
        if not hasattr(example.config, "input_feat_per_channel"):
            return torch.randn(example.batch, bins, frames, generator=generator)
    width = example.known(*WIDTHS)
    spectrum = example.known_or(None, "spec_size")
    if spectrum is not None:  # CLAP folds it to a square
        return torch.randn(example.batch, 1, spectrum * (spectrum // width), width, generator=generator)
    return torch.randn(example.batch, 8 * example.sequence, width, generator=generator)


def features_mask(example: Example, generator: Generator) -> Tensor:
    features = example.value("input_features")
    widths = [example.known_or(None, name) for name in WIDTHS]
    bins_first = features.shape[1] in widths and features.shape[2] not in widths
    return torch.ones(len(features), features.shape[2 if bins_first else 1], dtype=torch.int64)
