"""Pictures, videos and sound within a text: as many tokens in its place as the model makes features of it.

A model of text and images puts the feature of a part of an image where its text has the image token, and refuses a
text with more or fewer of them. So the model itself is asked: ``get_image_features`` runs once on the made images.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Generator, Tensor

from fxopt.tracing.checks import InputError
from fxopt.tracing.example import Example
from fxopt.tracing.example_images import companions_of, has_grid
from fxopt.tracing.example_memory import answer_of
from fxopt.tracing.example_shapes import other_shapes
from fxopt.tracing.hygiene import preserved
from fxopt.tracing.structure import tensors_of


@dataclass(frozen=True)
class Medium:
    """One kind of media within a text."""

    input: str
    tokens: tuple[str, ...]
    """The settings that name its token."""
    method: str
    """The method of the model that makes features of it."""
    kind: int
    """Its number in ``mm_token_type_ids``, where text has 0."""


MEDIA = (
    Medium("pixel_values", ("image_token_id", "image_token_index"), "get_image_features", 1),
    Medium("pixel_values_videos", ("video_token_id", "video_token_index"), "get_video_features", 2),
    Medium("input_features", ("audio_token_id", "audio_token_index"), "get_audio_features", 3),
)


def with_media(example: Example, names: Collection[str]) -> Example:
    """Return the example with a token for each feature of the images, videos and sounds among `names`."""
    if "input_ids" not in names or example.is_given("input_ids"):
        return example
    for medium in MEDIA:
        token = token_of(example, medium)
        if token is not None and medium.input in names:
            example, count = _placed(example, medium, token)
            example = replace(example, placed={**example.placed, token: count})
    others = example.known("latent_query_num") if "image_embeds_position_mask" in names else 0
    count = sum(example.placed.values()) + others
    if not count:
        return example
    # a row has padding in up to three eighths of it, and text before and after the image
    return replace(example, sequence=max(example.sequence, -(-(count + 3) * 8 // 5) + 8))


def token_of(example: Example, medium: Medium) -> int | None:
    """Return the token that stands for a part of the medium; None for a model whose text has no place for it."""
    takes = example.takes
    if "input_ids" not in takes or medium.input not in takes or not hasattr(example.model, medium.method):
        return None
    token = example.known_or(None, *medium.tokens)
    return token if isinstance(token, int) else None


def _placed(example: Example, medium: Medium, token: int) -> tuple[Any, int]:
    """Return the example with the medium in a shape that the model takes, and the number of its features in a row."""
    queries = getattr(example.config, "num_query_tokens", None)
    if isinstance(queries, int):  # a Q-former stands between, as in BLIP-2
        return example, queries
    method = getattr(example.model, medium.method)
    takes = inspect.signature(method).parameters
    names = [name for name in (medium.input, *companions_of(example.model)) if name in takes and name in example.takes]
    taken, answer = first_taken(example, method, names, medium.input)
    if isinstance(answer, Exception):
        shapes = ", ".join(f"{name} {tuple(example.value(name).shape)}" for name in names)
        raise InputError(
            f"{type(example.model).__name__}.{medium.method} does not take the made {shapes} "
            f"({type(answer).__name__}: {answer}): give {medium.input}, and input_ids with a token "
            f"{token} for each feature of it, as "
            "trace(model, inputs={...}) or fxopt.capture(model, args, kwargs)"
        ) from answer
    features = tensors_of(getattr(answer, "pooler_output", answer))
    return taken, sum(each.numel() // each.shape[-1] for each in features) // example.batch


def first_taken(example: Example, function: Callable[..., Any], names: Collection[str], varied: str) -> tuple[Any, Any]:
    """Return the first example that `function` takes, with `varied` in one shape or another, and its answer.

    If it takes none: the example as it was, and the first error of the function.
    """
    first: Exception | None = None
    for tried in _variants(example, varied):
        with preserved(example.model), torch.no_grad():
            try:
                return tried, answer_of(function, {name: tried.value(name) for name in names})
            except InputError:
                raise
            except Exception as error:  # noqa: BLE001  each model has checks and errors of its own
                first = first or error
    return example, first


def is_in_doubt(example: Example, name: str) -> bool:
    """Return whether models of one kind take this input in several shapes, and the model itself is still unasked."""
    if example.is_given(name) or example.placed:
        return False
    if name == "pixel_values":
        return has_grid(example) or "Video" in type(example.model).__name__
    return name == "input_values" or (
        name == "input_features" and example.known_or(None, "max_source_positions") is None
    )


def _variants(example: Example, varied: str) -> Iterator[Any]:
    yield example
    if not example.is_given(varied):
        for other in other_shapes(example, varied, example.value(varied)):
            yield replace(example, made={**example.made, varied: other})


def token_kinds(example: Example, generator: Generator) -> Tensor:
    """Return for each token whether it is text, or a part of an image, a video or a sound."""
    ids: Tensor = example.value("input_ids")
    kinds = torch.zeros_like(ids)
    for medium in MEDIA:
        token = token_of(example, medium)
        if token is not None:
            kinds[ids == token] = medium.kind
    return kinds
