"""The model and the sizes that example inputs are made for, and the facts of its config that the rules ask for."""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Generator, Tensor, nn

from fxopt.tracing.checks import InputError
from fxopt.tracing.documented import documented, parts_of, tensor_of
from fxopt.tracing.example_memory import MemoryGuard
from fxopt.tracing.hygiene import preserved

CACHES = ("cache", "past_key_values", "cache_params")
"""The names that versions of transformers have for keys, values and states of earlier tokens."""

_PARTS = ("text_config", "vision_config", "audio_config", "encoder", "backbone_config", "vision_encoder_config")
_OF_IMAGES = ("height", "width", "image_size", "frame_size")
"""Sizes of images, as the documentation of an input calls them."""

REMEDY = "give it yourself, as trace(model, inputs={...}) or fxopt.capture(model, args, kwargs)"


@dataclass(frozen=True)
class Example:
    """The examples for one model and these sizes; after a cache, for one token more."""

    model: nn.Module
    batch: int
    sequence: int
    rules: Mapping[str, Rule] = field(hash=False, repr=False)
    """The rules that make an example, by the name of the input."""
    placed: Mapping[int, int] = field(default_factory=dict, hash=False)
    """The number of tokens of each row that stand for an image, a video or a sound, by token."""
    made: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """The values already made: the caller's own, the cache, inputs in the shape that the model takes."""
    given: Collection[str] = ()
    """The names of the caller's own values."""
    part: str = ""
    """The part of the model that reads the input, whose own config is asked first: ``decoder``."""

    @property
    def config(self) -> Any:
        return self.model.config

    def value(self, name: str) -> Any:
        if name in self.made:
            return self.made[name]
        rule = self.rules.get(name) or self._documented(name)
        # a generator for each name, so that a tensor is independent of the other requested ones
        with MemoryGuard(f"{name} of {type(self.model).__name__}", REMEDY):
            value = rule(self, Generator().manual_seed(zlib.crc32(name.encode())))
        if isinstance(value, Tensor) and value.is_floating_point():
            return value.to(next((p.dtype for p in self.model.parameters() if p.is_floating_point()), value.dtype))
        return value

    def _documented(self, name: str) -> Rule:
        """Return the rule for an input that is missing in the table: the shape that the docstring of forward gives."""
        what = documented(self.model, name)
        if what is None:
            raise InputError(
                f"no rule makes an example of {name}; there are rules for {', '.join(self.rules)}: {REMEDY}"
            )

        def setting(dimension: str) -> Any:
            if dimension in _OF_IMAGES:
                return self.image_size[dimension == "width"]
            if dimension in ("num_images", "num_videos", "num_images_or_videos"):
                return self.batch
            if dimension == "num_channels":
                return self.known_or(3, "num_channels", "in_channels", "in_chans")
            try:
                return self.known(dimension)
            except InputError:
                kind = type(self.model).__name__
                raise InputError(
                    f"{name} of {kind}.forward is of shape {what.shape}, and its config says no {dimension}: {REMEDY}"
                ) from None

        length = self.samples if self.takes_waves else self.sequence
        return lambda example, generator: tensor_of(what, name, self.batch, length, setting, generator)

    @property
    def takes(self) -> Mapping[str, Any]:
        """The parameters of forward by name."""
        return inspect.signature(self.model.forward).parameters

    def is_given(self, name: str) -> bool:
        return name in self.given

    @property
    def has_cache(self) -> bool:
        return any(name in self.made for name in CACHES)

    def after(self, inputs: Mapping[str, Any]) -> Example:
        """Return the example of the next token, with the cache that the model returns for `inputs`.

        A decoder has read half as many tokens as the encoder, so that the two lengths stay distinct.
        """
        if "decoder_input_ids" in inputs:
            read = inputs["decoder_input_ids"][:, : -(-self.sequence // 2)]
            inputs = {**inputs, "decoder_input_ids": read}
        with preserved(self.model), torch.no_grad():
            answer = self.model(**{**inputs, "use_cache": True})
        cache = next((getattr(answer, name) for name in CACHES if getattr(answer, name, None) is not None), None)
        if cache is None:
            raise InputError(f"{type(self.model).__name__} returns no cache to make an example from: {REMEDY}")
        return replace(self, made={**self.made, **dict.fromkeys(CACHES, cache)})

    def known(self, *names: str) -> Any:
        """Return the first of these settings that the config, or that of one of its parts, has."""
        configs = [getattr(self.config, self.part, None)] if self.part else []
        configs += [self.config, *(getattr(self.config, part, None) for part in _PARTS)]
        configs += parts_of(self.config).values()
        for name in names:
            for config in configs:
                value = getattr(config, name, None)
                if value is not None:
                    return value
        kind = type(self.model).__name__
        raise InputError(f"the config of {kind} says none of {', '.join(names)}, which an example needs: {REMEDY}")

    def known_or(self, default: Any, *names: str) -> Any:
        try:
            return self.known(*names)
        except InputError:
            return default

    @property
    def tokens(self) -> tuple[int, ...]:
        """The shape of token ids; with a dimension of choices where the model has such a head."""
        length = 1 if self.has_cache else self.sequence
        return (self.batch, 2, length) if "MultipleChoice" in type(self.model).__name__ else (self.batch, length)

    @property
    def image_size(self) -> tuple[int, int]:
        if "ConvProcessing" in type(self.model).__name__:  # of Perceiver, whose code fixes it
            return 224, 224
        size = self.known_or(224, "image_size", "input_size", "crop_size")
        height, width = (size, size) if isinstance(size, int) else tuple(size)
        return height, width

    @property
    def takes_waves(self) -> bool:
        return bool(main_input(self.model) == "input_values")

    @property
    def samples(self) -> int:
        """The length of a waveform."""
        return 320 * self.sequence + 80


Rule = Callable[[Example, Generator], Any]
"""Makes the example of one input; random numbers come from the generator."""


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
