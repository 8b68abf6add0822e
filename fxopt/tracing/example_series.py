"""Examples of a series of numbers: its past, its future, and the features of both."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from fxopt.tracing.example import Example

SERIES = ("past_observed_mask", "past_time_features", "future_values", "future_time_features")
"""Inputs that tell more of the past and the future of a series of numbers."""


def past(example: Example, generator: Generator) -> Tensor:
    length = example.known_or(example.sequence, "context_length") + max(example.known_or([0], "lags_sequence"))
    channels = example.known_or(1, "num_input_channels", "input_size")
    several = channels > 1 or hasattr(example.config, "num_input_channels")
    return torch.randn(example.batch, length, *([channels] if several else []), generator=generator)


def past_mask(example: Example, generator: Generator) -> Tensor:
    return torch.ones(past(example, generator).shape, dtype=torch.bool)


def past_padding(example: Example, generator: Generator) -> Tensor:
    """Return zeros: every moment of the past is real, and none is padding."""
    return torch.zeros(past(example, generator).shape, dtype=torch.int64)


def past_features(example: Example, generator: Generator) -> Tensor:
    shape = (*past(example, generator).shape[:2], example.known("num_time_features"))
    return torch.randn(shape, generator=generator)


def future(example: Example, generator: Generator) -> Tensor:
    channels = past(example, generator).shape[2:]
    return torch.randn(example.batch, example.known("prediction_length"), *channels, generator=generator)


def future_features(example: Example, generator: Generator) -> Tensor:
    shape = (example.batch, example.known("prediction_length"), example.known("num_time_features"))
    return torch.randn(shape, generator=generator)
