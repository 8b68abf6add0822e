"""Examples for models of text and images: patches with their grid, and as many image tokens as there are features."""

from __future__ import annotations

import inspect
import sys
from typing import Any

import torch
from torch import Generator, Tensor

from fxopt.capture.checks import InputError
from fxopt.capture.hygiene import preserved
from fxopt.capture.structure import tensors_of

COMPANIONS = (
    "image_grid_thw", "image_sizes", "pixel_attention_mask", "aspect_ratio_ids", "aspect_ratio_mask",
    "qformer_input_ids", "image_attention_mask",
)  # fmt: skip
"""Inputs that tell of the images in another one."""

_GRIDS = ("image_grid_thw", "grid_thw")
_PAIRS = ("lightglue", "superglue", "efficientloftr")


def grid_of(example: Any) -> tuple[int, int]:
    """Patches of one image in height and width: twice what is merged to one token."""
    merged = example.known_or(2, "spatial_merge_size")
    return 2 * merged, 2 * merged


def has_grid(example: Any) -> bool:
    return any(name in example.takes for name in _GRIDS)


def grid(example: Any, generator: Generator) -> Tensor:
    """Of each image, one frame and its patches in height and width."""
    return torch.tensor([[1, *grid_of(example)]] * example.batch)


def patches(example: Any, generator: Generator) -> Tensor:
    """The patches of all images, one after another, each with its pixels in a row."""
    height, width = grid_of(example)
    vision = getattr(example.config, "vision_config", example.config)
    channels = next((getattr(vision, n) for n in ("in_channels", "in_chans", "num_channels") if hasattr(vision, n)), 3)
    patch = example.known("patch_size")
    pixels = channels * patch * patch * (getattr(vision, "temporal_patch_size", None) or 1)
    return torch.randn(example.batch * height * width, pixels, generator=generator)


def image_shape(example: Any, height: int, width: int) -> tuple[int, ...]:
    """The shape of images where the model takes them in groups: tiles, pairs, several to a row."""
    channels = example.known_or(3, "num_channels", "in_channels")
    one = (channels, height, width)
    if getattr(example.config, "model_type", "") in _PAIRS:
        return example.batch, 2, *one
    if "aspect_ratio_ids" in example.takes:
        return example.batch, 1, example.known("max_num_tiles"), *one
    if "pixel_attention_mask" in example.takes:
        return example.batch, 1, *one
    tiles = getattr(sys.modules.get(type(example.model).__module__), "image_size_to_num_patches", None)
    if "image_sizes" in example.takes and tiles is not None and hasattr(example.config, "image_grid_pinpoints"):
        count = tiles((height, width), example.config.image_grid_pinpoints, example.config.vision_config.image_size)
        return example.batch, count, *one
    return example.batch, *one


def has_image_sizes(model: Any) -> bool:
    """Whether the sizes of the images before they were cut or padded matter: with Pixtral, and LLaVA-NeXT's tiles."""
    vision = getattr(model.config, "vision_config", None)
    return getattr(vision, "model_type", "") == "pixtral" or hasattr(model.config, "image_grid_pinpoints")


def image_sizes(example: Any, generator: Generator) -> Tensor:
    return torch.tensor([example.image_size] * example.batch)


def pixel_attention_mask(example: Any, generator: Generator) -> Tensor:
    return torch.ones(example.batch, 1, *example.image_size, dtype=torch.int64)


def aspect_ratio_ids(example: Any, generator: Generator) -> Tensor:
    return torch.ones(example.batch, 1, dtype=torch.int64)


def aspect_ratio_mask(example: Any, generator: Generator) -> Tensor:
    return torch.ones(example.batch, 1, example.known("max_num_tiles"), dtype=torch.int64)


def image_tokens(example: Any) -> int:
    """How many tokens of a row stand for its image: as many as the model makes features of it.

    0 for a model whose text has no place for images.
    """
    if example.image_token is None or not hasattr(example.model, "get_image_features"):
        return 0
    takes = inspect.signature(example.model.get_image_features).parameters
    names = [name for name in ("pixel_values", *COMPANIONS) if name in takes and name in example.takes]
    if not has_image_sizes(example.model):
        names = [name for name in names if name != "image_sizes"]
    values = {name: example.value(name) for name in names}
    with preserved(example.model), torch.no_grad():
        try:
            answer = example.model.get_image_features(**values)
        except Exception as error:  # each model has checks and errors of its own
            shapes = ", ".join(f"{name} {tuple(value.shape)}" for name, value in values.items())
            raise InputError(
                f"{type(example.model).__name__}.get_image_features does not take the made {shapes} "
                f"({type(error).__name__}: {error}): give pixel_values, and input_ids with a token "
                f"{example.image_token} for each feature of the image, as "
                "trace(model, inputs={...}) or fxopt.capture(model, args, kwargs)"
            ) from error
    features = getattr(answer, "pooler_output", answer)
    found = tensors_of(features)
    return sum(each.numel() // each.shape[-1] for each in found) // example.batch
