"""Examples for models whose main input is called ``inputs`` and may be of any kind: Perceivers, and pairs that hear."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn

from fxopt.tracing.checks import InputError
from fxopt.tracing.example import REMEDY, Example
from fxopt.tracing.example_text import token_ids


def has_several_kinds(model: nn.Module) -> bool:
    """Return whether the model is a Perceiver that reads images, sound and labels at once."""
    perceiver = getattr(model, "perceiver", model)
    kinds = getattr(getattr(perceiver, "input_preprocessor", None), "modalities", ())
    return set(kinds) == {"image", "audio", "label"}


def inputs_of_any_kind(example: Example, generator: Generator) -> Tensor | dict[str, Tensor]:
    """Return the input of a Perceiver, as its preprocessor decides; without one, vectors of its own width."""
    kind = type(example.model).__name__
    perceiver = getattr(example.model, "perceiver", example.model)
    preprocessor = getattr(perceiver, "input_preprocessor", perceiver)
    if preprocessor is None:
        return torch.randn(example.batch, example.sequence, example.known("d_model"), generator=generator)
    if "TextPreprocessor" in type(preprocessor).__name__:
        return token_ids(example, generator)
    if "OpticalFlow" in kind:  # two frames, and of each pixel the 3 x 3 around it in three colors
        return torch.randn(example.batch, 2, 27, *example.known("train_size"), generator=generator)
    if has_several_kinds(example.model):
        return _video_with_sound(example, generator)
    raise InputError(
        f"no rule makes an example of inputs of {kind}, whose preprocessor is a {type(preprocessor).__name__}: {REMEDY}"
    )


def _video_with_sound(example: Example, generator: Generator) -> dict[str, Tensor]:
    """Return the input of a multimodal Perceiver, which is to find the label: zeros stand for it."""
    frames, samples = example.known("num_frames"), example.known("audio_samples_per_frame")
    return {
        "image": torch.randn(example.batch, frames, 3, *example.image_size, generator=generator),
        "audio": torch.randn(example.batch, frames * samples, 1, generator=generator),
        "label": torch.zeros(example.batch, example.known("num_labels")),
    }


def few_output_points(example: Example, generator: Generator) -> dict[str, Tensor | None]:
    """Return the first points that a multimodal Perceiver is to reconstruct; all would be a million."""
    return {"image": torch.arange(example.sequence), "audio": torch.arange(example.sequence // 2), "label": None}
