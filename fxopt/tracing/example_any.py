"""Examples for models whose main input is called ``inputs`` and may be of any kind: Perceivers, and pairs that hear."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Generator, Tensor, nn

from fxopt.tracing.checks import InputError


def main_input(model: nn.Module) -> Any:
    """Return the name of the input that the model mainly reads, "" if its class names none; a list in OneFormer.

    If that is only ``inputs``, return the other name that forward has for it, which tells its kind: a pair of encoder
    and decoder takes the input of its encoder, a Perceiver that of its preprocessor.
    """
    main = getattr(model, "main_input_name", None) or ""
    if main != "inputs":
        return main
    takes = inspect.signature(model.forward).parameters
    encoders = getattr(getattr(model, "encoder", None), "main_input_name", None)
    return next((name for name in (encoders, "input_ids", "pixel_values") if name in takes), main)


def has_several_kinds(model: nn.Module) -> bool:
    """Return whether the model is a Perceiver that reads images, sound and labels at once."""
    perceiver = getattr(model, "perceiver", model)
    kinds = getattr(getattr(perceiver, "input_preprocessor", None), "modalities", ())
    return set(kinds) == {"image", "audio", "label"}


def inputs_of_any_kind(example: Any, generator: Generator) -> Tensor | dict[str, Tensor]:
    """Return the input of a Perceiver, as its preprocessor decides; without one, vectors of its own width."""
    kind = type(example.model).__name__
    perceiver = getattr(example.model, "perceiver", example.model)
    preprocessor = getattr(perceiver, "input_preprocessor", perceiver)
    if preprocessor is None:
        return torch.randn(example.batch, example.sequence, example.known("d_model"), generator=generator)
    if "TextPreprocessor" in type(preprocessor).__name__:
        ids: Tensor = example.token_ids(generator)
        return ids
    if "OpticalFlow" in kind:  # two frames, and of each pixel the 3 x 3 around it in three colors
        return torch.randn(example.batch, 2, 27, *example.known("train_size"), generator=generator)
    if has_several_kinds(example.model):
        return _video_with_sound(example, generator)
    raise InputError(
        f"no rule makes an example of inputs of {kind}, whose preprocessor is a {type(preprocessor).__name__}: "
        "give it yourself, as trace(model, inputs={...}) or fxopt.capture(model, args, kwargs)"
    )


def _video_with_sound(example: Any, generator: Generator) -> dict[str, Tensor]:
    """Return the input of a multimodal Perceiver, which is to find the label: zeros stand for it."""
    frames, samples = example.known("num_frames"), example.known("audio_samples_per_frame")
    return {
        "image": torch.randn(example.batch, frames, 3, *example.image_size, generator=generator),
        "audio": torch.randn(example.batch, frames * samples, 1, generator=generator),
        "label": torch.zeros(example.batch, example.known("num_labels")),
    }


def few_output_points(example: Any, generator: Generator) -> dict[str, Tensor | None]:
    """Return the first points that a multimodal Perceiver is to reconstruct; all would be a million."""
    return {"image": torch.arange(example.sequence), "audio": torch.arange(example.sequence // 2), "label": None}
