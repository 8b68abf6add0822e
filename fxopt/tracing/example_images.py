"""Examples of images and videos: pixels, patches with their grid, masks and sizes."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Generator, Tensor

from fxopt.tracing.checks import InputError
from fxopt.tracing.example import REMEDY, Example

COMPANIONS = (
    "image_grid_thw", "video_grid_thw", "image_sizes", "pixel_attention_mask", "aspect_ratio_ids", "aspect_ratio_mask",
    "qformer_input_ids", "image_attention_mask", "spatial_shapes", "high_res_pixel_values", "mm_token_type_ids",
    "image_embeds_position_mask", "cross_attention_mask", "image_merge_sizes", "video_merge_sizes",
)  # fmt: skip
"""Inputs that tell of the images in another one."""

_GRIDS = ("image_grid_thw", "grid_thw", "video_grid_thw")
_PAIRS = ("lightglue", "superglue", "efficientloftr")


def grid_of(example: Example) -> tuple[int, int]:
    """Return the patches of one image in height and width: twice the number that is merged to one token."""
    merged = example.known_or(2, "spatial_merge_size")
    return 2 * merged, 2 * merged


def has_grid(example: Example) -> bool:
    return any(name in example.takes for name in _GRIDS)


def grid(example: Example, generator: Generator) -> Tensor:
    """Return, for each image, one frame and its patches in height and width."""
    return torch.tensor([[1, *grid_of(example)]] * example.batch)


def merge_sizes(example: Example, generator: Generator) -> Tensor:
    """Return, for each image, how many of its patches in a row and a column become one token."""
    return torch.full((example.batch,), example.known_or(1, "spatial_merge_size"))


def patches(example: Example, generator: Generator) -> Tensor:
    """Return the patches of all images, one after another, each with its pixels in a row."""
    height, width = grid_of(example)
    vision = getattr(example.config, "vision_config", example.config)
    channels = next((getattr(vision, n) for n in ("in_channels", "in_chans", "num_channels") if hasattr(vision, n)), 3)
    patch = example.known("patch_size")
    pixels = channels * patch * patch * (getattr(vision, "temporal_patch_size", None) or 1)
    return torch.randn(example.batch * height * width, pixels, generator=generator)


def patches_of_each(example: Example, generator: Generator) -> Tensor:
    """Return the patches of each image by itself, padded to one number."""
    flat = patches(example, generator)
    return flat.reshape(example.batch, -1, flat.shape[-1])


def image_shape(example: Example, height: int, width: int) -> tuple[int, ...]:
    """Return the shape of images if the model takes them in groups: tiles, pairs, several to a row."""
    channels = example.known_or(3, "num_channels", "in_channels")
    one = (channels, height, width)
    if getattr(example.config, "model_type", "") in _PAIRS:
        return example.batch, 2, *one
    if "aspect_ratio_ids" in example.takes:
        return example.batch, 1, example.known("max_num_tiles"), *one
    if "pixel_attention_mask" in example.takes or "image_attention_mask" in example.takes:
        return example.batch, 1, *one
    tiles = getattr(sys.modules.get(type(example.model).__module__), "image_size_to_num_patches", None)
    if "image_sizes" in example.takes and tiles is not None and hasattr(example.config, "image_grid_pinpoints"):
        count = tiles((height, width), example.config.image_grid_pinpoints, example.config.vision_config.image_size)
        return example.batch, count, *one
    return example.batch, *one


def has_image_sizes(model: Any) -> bool:
    """Return whether the sizes of the images before cutting or padding matter: for Pixtral, and LLaVA-NeXT's tiles."""
    vision = getattr(model.config, "vision_config", None)
    return getattr(vision, "model_type", "") == "pixtral" or hasattr(model.config, "image_grid_pinpoints")


def companions_of(model: Any) -> tuple[str, ...]:
    """Return the inputs about images of which this model may take some."""
    return COMPANIONS if has_image_sizes(model) else tuple(name for name in COMPANIONS if name != "image_sizes")


def image_sizes(example: Example, generator: Generator) -> Tensor:
    return torch.tensor([example.image_size] * example.batch)


def pixel_attention_mask(example: Example, generator: Generator) -> Tensor:
    if "spatial_shapes" in example.takes:
        return torch.ones(example.value("pixel_values").shape[:2], dtype=torch.int64)
    return torch.ones(example.batch, 1, *example.image_size, dtype=torch.int64)


def aspect_ratio_ids(example: Example, generator: Generator) -> Tensor:
    return torch.ones(example.batch, 1, dtype=torch.int64)


def aspect_ratio_mask(example: Example, generator: Generator) -> Tensor:
    return torch.ones(example.batch, 1, example.known("max_num_tiles"), dtype=torch.int64)


def high_resolution(example: Example, generator: Generator) -> Tensor:
    """Return the same images for a second tower, which sees more pixels."""
    size = example.config.high_res_vision_config.image_size
    return torch.randn(example.batch, 3, size, size, generator=generator)


def spatial_shapes(example: Example, generator: Generator) -> Tensor:
    """Return, for each image, its patches in height and width."""
    return torch.tensor([grid_of(example)] * example.batch)


def image_attention_mask(example: Example, generator: Generator) -> Tensor:
    """Return a mask with which every token reads the one image."""
    return torch.ones(*example.tokens, 1, dtype=torch.int64)


def cross_attention_mask(example: Example, generator: Generator) -> Tensor:
    """Return a mask with which every token reads every tile of the one image."""
    return torch.ones(*example.tokens, 1, example.known("max_num_tiles"), dtype=torch.int64)


def latent_places(example: Example, generator: Generator) -> Tensor:
    """Return the places in the text where the latent queries of the image go."""
    places = torch.zeros(example.tokens, dtype=torch.int64)
    places[:, 1 : 1 + example.known("latent_query_num")] = 1
    return places


def vision_states(example: Example, generator: Generator) -> Tensor:
    if not has_grid(example):
        raise InputError(f"no rule makes an example of hidden_states: {REMEDY}")
    return patches(example, generator)


def pixels(example: Example, generator: Generator) -> Tensor:
    if has_grid(example):
        return patches(example, generator)
    if "spatial_shapes" in example.takes:
        return patches_of_each(example, generator)
    shape = image_shape(example, *example.image_size)
    frames = example.known_or(None, "num_frames")
    if frames and len(shape) == 4 and "ImageClassification" not in type(example.model).__name__:  # as of a Perceiver
        shape = (shape[0], frames, *shape[1:])
    return torch.randn(shape, generator=generator)


def videos(example: Example, generator: Generator) -> Tensor:
    """Return a few frames of each video; all patches one after another if their grid tells them apart."""
    if "video_grid_thw" in example.takes:
        return patches(example, generator)
    frames = example.known_or(2 * example.known_or(1, "tubelet_size"), "num_frames")
    channels = example.known_or(3, "num_channels", "in_channels", "in_chans")
    return torch.randn(example.batch, frames, channels, *example.image_size, generator=generator)


def pixel_mask(example: Example, generator: Generator) -> Tensor:
    return torch.ones(example.batch, *example.image_size, dtype=torch.int64)


def patch_mask(example: Example, generator: Generator) -> Tensor:
    """Return the mask of patches, for pretraining."""
    height, width = example.image_size
    patch = example.known("patch_size", "encoder_stride")
    return torch.rand(example.batch, (height // patch) * (width // patch), generator=generator) < 0.5


def regions(example: Example, generator: Generator) -> Tensor:
    return torch.randn(example.batch, 10, example.known("visual_feat_dim"), generator=generator)


def region_boxes(example: Example, generator: Generator) -> Tensor:
    return torch.rand(example.batch, 10, example.known("visual_pos_dim"), generator=generator)
