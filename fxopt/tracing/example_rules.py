"""Rules that make an example of each input of transformers: a rule a name, in one table."""

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
from fxopt.tracing.example_any import few_output_points, inputs_of_any_kind, main_input
from fxopt.tracing.example_images import (
    aspect_ratio_ids,
    aspect_ratio_mask,
    cross_attention_mask,
    grid,
    has_grid,
    high_resolution,
    image_attention_mask,
    image_shape,
    image_sizes,
    latent_places,
    merge_sizes,
    patches,
    patches_of_each,
    pixel_attention_mask,
    spatial_shapes,
)
from fxopt.tracing.example_media import token_kinds
from fxopt.tracing.example_memory import MemoryGuard
from fxopt.tracing.example_shapes import WIDTHS
from fxopt.tracing.hygiene import preserved

CACHES = ("cache", "past_key_values", "cache_params")
"""The names that versions of transformers have for keys, values and states of earlier tokens."""

SERIES = ("past_observed_mask", "past_time_features", "future_values", "future_time_features")
"""Inputs that tell more of the past and the future of a series of numbers."""

_PARTS = ("text_config", "vision_config", "audio_config", "encoder", "backbone_config", "vision_encoder_config")
_SPECIAL = (
    "pad_token_id", "bos_token_id", "eos_token_id", "sep_token_id", "decoder_start_token_id", "image_token_id",
    "image_token_index", "video_token_id", "audio_token_id", "vision_start_token_id", "vision_end_token_id",
)  # fmt: skip
_OF_IMAGES = ("height", "width", "image_size", "frame_size")
"""Sizes of images, as the documentation of an input calls them."""

_REMEDY = "give it yourself, as trace(model, inputs={...}) or fxopt.capture(model, args, kwargs)"


@dataclass(frozen=True)
class Example:
    """The examples for one model and these sizes; after a cache, for one token more."""

    model: nn.Module
    batch: int
    sequence: int
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
        rule = RULES.get(name) or self._documented(name)
        # a generator for each name, so that a tensor is independent of the other requested ones
        with MemoryGuard(f"{name} of {type(self.model).__name__}", _REMEDY):
            value = rule(self, Generator().manual_seed(zlib.crc32(name.encode())))
        if isinstance(value, Tensor) and value.is_floating_point():
            return value.to(next((p.dtype for p in self.model.parameters() if p.is_floating_point()), value.dtype))
        return value

    def _documented(self, name: str) -> Callable[[Example, Generator], Any]:
        """Return the rule for an input that is missing in the table: the shape that the docstring of forward gives."""
        what = documented(self.model, name)
        if what is None:
            raise InputError(f"no rule makes an example of {name}; there are rules for {', '.join(RULES)}: {_REMEDY}")

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
                    f"{name} of {kind}.forward is of shape {what.shape}, and its config says no {dimension}: {_REMEDY}"
                ) from None

        length = self._samples if self.takes_waves else self.sequence
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
            raise InputError(f"{type(self.model).__name__} returns no cache to make an example from: {_REMEDY}")
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
        raise InputError(f"the config of {kind} says none of {', '.join(names)}, which an example needs: {_REMEDY}")

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

    # ------------------------------------------------------------ text
    def padding(self) -> Tensor:
        """Return ones, and zeros for padding: rows end after all, 7/8, 6/8, 5/8 of the positions, over and over."""
        rows = torch.arange(self.batch) % 4 * (self.sequence // 8)
        return (torch.arange(self.sequence) < self.sequence - rows[:, None]).long()

    def mask(self, generator: Generator) -> Tensor:
        if self.takes_waves:
            return torch.ones(self.batch, self._samples, dtype=torch.int64)
        if self.has_cache and not self.known_or(False, "is_encoder_decoder"):  # it masks the cached tokens, too
            return torch.cat([self.padding(), torch.ones(self.batch, 1, dtype=torch.int64)], 1)
        mask = self.padding()
        return mask[:, None].expand(self.tokens).contiguous() if len(self.tokens) == 3 else mask

    def decoder_mask(self, generator: Generator) -> Tensor:
        length = 1 - (-self.sequence // 2) if self.has_cache else self.sequence
        return torch.ones(self.batch, length, dtype=torch.int64)

    def token_ids(self, generator: Generator) -> Tensor:
        """Return ordinary tokens, the end token last, which some pooling heads look for, and padding."""
        ids = self._ordinary_ids(self.tokens, generator)
        if ids.shape[-1] == 1:
            return ids
        first = 1
        for token, count in self.placed.items():
            ids[..., first : first + count] = token
            first += count
        mask = self.padding()[:, None] if ids.dim() == 3 else self.padding()
        end, pad = self._id("eos_token_id"), self._id("pad_token_id")
        if end is not None:
            last = torch.arange(self.sequence) == mask.sum(-1, keepdim=True) - 1
            ids = ids.masked_fill(last, end)
        return ids if pad is None else ids.masked_fill(mask == 0, pad)

    def encoder_ids(self, generator: Generator) -> Tensor:
        """Return the ids for a model of two sides: its encoder reads all tokens again, with a cache as well."""
        whole = (
            replace(self, made={name: each for name, each in self.made.items() if name not in CACHES})
            if self.known_or(False, "is_encoder_decoder")
            else self
        )
        return whole.token_ids(generator)

    def decoder_ids(self, generator: Generator) -> Tensor:
        """Return ids of the decoder's vocabulary, which differs from the encoder's if each has a config of its own."""
        channels = getattr(getattr(self.config, "decoder_config", None), "num_channels", None)  # of sound, in Dia
        shape = self.tokens if channels is None else (*self.tokens, channels)
        return replace(self, part="decoder")._ordinary_ids(shape, generator)

    def _ordinary_ids(self, shape: tuple[int, ...], generator: Generator) -> Tensor:
        size = self.known("vocab_size", "num_hash_buckets")  # CANINE reads characters, and hashes them
        ordinary = torch.ones(size, dtype=torch.bool)
        ordinary[: min(1000, size // 2)] = False  # mostly special tokens
        for name in _SPECIAL:
            special = self._id(name)
            if special is not None:
                ordinary[special] = False
        known = ordinary.nonzero()[:, 0]
        return known[torch.randint(len(known), shape, generator=generator)]

    def _id(self, name: str) -> int | None:
        """Return a special token of the vocabulary; the first if there are several."""
        value = self.known_or(None, name)
        first = value[0] if isinstance(value, list) and value else value
        return first if isinstance(first, int) and 0 <= first < self.known("vocab_size", "num_hash_buckets") else None

    def token_types(self, generator: Generator) -> Tensor:
        kinds = self.known_or(1, "type_vocab_size")
        return torch.randint(max(kinds, 1), self.tokens, generator=generator)

    def positions(self, generator: Generator) -> Tensor:
        first = self.sequence if self.has_cache else 0
        return torch.arange(first, first + self.tokens[-1]).expand(self.tokens).contiguous()

    def global_mask(self, generator: Generator) -> Tensor:
        """Return a mask with global attention at the first token only."""
        mask = torch.zeros(self.tokens, dtype=torch.int64)
        mask[..., 0] = 1
        return mask

    def embeddings(self, generator: Generator) -> Tensor:
        width = self.known("embedding_size", "hidden_size", "d_model", "n_embd")
        return torch.randn(*self.tokens, width, generator=generator)

    def decoder_embeddings(self, generator: Generator) -> Tensor:
        return replace(self, part="decoder").embeddings(generator)

    def encoded(self, generator: Generator) -> Tensor:
        """Return an encoder's output for a decoder or a Q-former: vectors of the encoder's own width."""
        width = self.known("encoder_hidden_size", "cross_attention_hidden_size", "hidden_size", "d_model")
        return torch.randn(self.batch, self.sequence, width, generator=generator)

    def vision_states(self, generator: Generator) -> Tensor:
        if not has_grid(self):
            raise InputError(f"no rule makes an example of hidden_states: {_REMEDY}")
        return patches(self, generator)

    def boxes(self, generator: Generator) -> Tensor:
        most = self.known_or(1024, "max_2d_position_embeddings")
        corners = torch.randint(0, min(500, most // 2), (*self.tokens, 2), generator=generator)
        return torch.cat([corners, corners + min(100, most // 4)], -1)

    def encoder_outputs(self, generator: Generator) -> Any:
        """Return the output of this model's encoder for its inputs."""
        model: Any = self.model
        encoder = model.get_encoder()
        main = encoder.main_input_name
        names = [name for name in (main, "attention_mask") if name in inspect.signature(encoder.forward).parameters]
        with preserved(self.model), torch.no_grad():
            return encoder(**{name: self.value(name) for name in names})

    # ------------------------------------------------------------ images
    def pixels(self, generator: Generator) -> Tensor:
        if has_grid(self):
            return patches(self, generator)
        if "spatial_shapes" in self.takes:
            return patches_of_each(self, generator)
        shape = image_shape(self, *self.image_size)
        frames = self.known_or(None, "num_frames")
        if frames and len(shape) == 4 and "ImageClassification" not in type(self.model).__name__:  # as of a Perceiver
            shape = (shape[0], frames, *shape[1:])
        return torch.randn(shape, generator=generator)

    def videos(self, generator: Generator) -> Tensor:
        """Return a few frames of each video; all patches one after another if their grid tells them apart."""
        if "video_grid_thw" in self.takes:
            return patches(self, generator)
        frames = self.known_or(2 * self.known_or(1, "tubelet_size"), "num_frames")
        channels = self.known_or(3, "num_channels", "in_channels", "in_chans")
        return torch.randn(self.batch, frames, channels, *self.image_size, generator=generator)

    @property
    def image_size(self) -> tuple[int, int]:
        if "ConvProcessing" in type(self.model).__name__:  # of Perceiver, whose code fixes it
            return 224, 224
        size = self.known_or(224, "image_size", "input_size", "crop_size")
        height, width = (size, size) if isinstance(size, int) else tuple(size)
        return height, width

    def pixel_mask(self, generator: Generator) -> Tensor:
        return torch.ones(self.batch, *self.image_size, dtype=torch.int64)

    def patch_mask(self, generator: Generator) -> Tensor:
        """Return the mask of patches, for pretraining."""
        height, width = self.image_size
        patch = self.known("patch_size", "encoder_stride")
        return torch.rand(self.batch, (height // patch) * (width // patch), generator=generator) < 0.5

    def regions(self, generator: Generator) -> Tensor:
        return torch.randn(self.batch, 10, self.known("visual_feat_dim"), generator=generator)

    def region_boxes(self, generator: Generator) -> Tensor:
        return torch.rand(self.batch, 10, self.known("visual_pos_dim"), generator=generator)

    # ------------------------------------------------------------ sound
    @property
    def takes_waves(self) -> bool:
        return bool(main_input(self.model) == "input_values")

    @property
    def _samples(self) -> int:
        return 320 * self.sequence + 80

    def waveform(self, generator: Generator) -> Tensor:
        if hasattr(self.config, "num_mel_bins") and hasattr(self.config, "max_length"):
            shape = (self.batch, self.config.max_length, self.config.num_mel_bins)
            return torch.randn(shape, generator=generator)
        what = documented(self.model, "input_values")
        if what is not None and len(what.dimensions) == 3:  # an audio codec
            channels = self.known_or(1, "audio_channels")
            return torch.randn(self.batch, channels, 7680 * max(1, self.sequence // 8), generator=generator)
        return torch.randn(self.batch, self._samples, generator=generator)

    def spectrogram(self, generator: Generator) -> Tensor:
        bins = self.known_or(None, "num_mel_bins")
        if bins is not None and hasattr(self.config, "max_source_positions"):
            frames = 2 * self.config.max_source_positions  # whisper takes exactly 30 seconds
            if not hasattr(self.config, "input_feat_per_channel"):
                return torch.randn(self.batch, bins, frames, generator=generator)
        width = self.known(*WIDTHS)
        spectrum = self.known_or(None, "spec_size")
        if spectrum is not None:  # CLAP folds it to a square
            return torch.randn(self.batch, 1, spectrum * (spectrum // width), width, generator=generator)
        return torch.randn(self.batch, 8 * self.sequence, width, generator=generator)

    def features_mask(self, generator: Generator) -> Tensor:
        features = self.value("input_features")
        widths = [self.known_or(None, name) for name in WIDTHS]
        bins_first = features.shape[1] in widths and features.shape[2] not in widths
        return torch.ones(len(features), features.shape[2 if bins_first else 1], dtype=torch.int64)

    # ------------------------------------------------------------ series of numbers
    def past(self, generator: Generator) -> Tensor:
        length = self.known_or(self.sequence, "context_length") + max(self.known_or([0], "lags_sequence"))
        channels = self.known_or(1, "num_input_channels", "input_size")
        several = channels > 1 or hasattr(self.config, "num_input_channels")
        return torch.randn(self.batch, length, *([channels] if several else []), generator=generator)

    def past_mask(self, generator: Generator) -> Tensor:
        return torch.ones(self.past(generator).shape, dtype=torch.bool)

    def past_padding(self, generator: Generator) -> Tensor:
        """Return zeros: every moment of the past is real, and none is padding."""
        return torch.zeros(self.past(generator).shape, dtype=torch.int64)

    def past_features(self, generator: Generator) -> Tensor:
        shape = (*self.past(generator).shape[:2], self.known("num_time_features"))
        return torch.randn(shape, generator=generator)

    def future(self, generator: Generator) -> Tensor:
        past = self.past(generator)
        return torch.randn(self.batch, self.known("prediction_length"), *past.shape[2:], generator=generator)

    def future_features(self, generator: Generator) -> Tensor:
        shape = (self.batch, self.known("prediction_length"), self.known("num_time_features"))
        return torch.randn(shape, generator=generator)

    # ------------------------------------------------------------ labels
    def labels(self, generator: Generator) -> Tensor:
        head = type(self.model).__name__
        if "SequenceClassification" in head or "ImageClassification" in head:
            if self.known_or(None, "problem_type") in ("regression", "multi_label_classification"):
                return torch.rand(self.batch, self.known("num_labels"), generator=generator)
            return torch.randint(self.known("num_labels"), (self.batch,), generator=generator)
        if "TokenClassification" in head:
            return torch.randint(self.known("num_labels"), self.tokens, generator=generator)
        if "MultipleChoice" in head:
            return torch.zeros(self.batch, dtype=torch.int64)
        return self.decoder_ids(generator)

    def span_ends(self, generator: Generator) -> Tensor:
        return torch.randint(self.sequence, (self.batch,), generator=generator)

    def next_sentence(self, generator: Generator) -> Tensor:
        return torch.randint(2, (self.batch,), generator=generator)


RULES: dict[str, Callable[[Example, Generator], Any]] = {
    "inputs": inputs_of_any_kind,
    "subsampled_output_points": few_output_points,
    "input_ids": Example.encoder_ids,
    "decoder_input_ids": Example.decoder_ids,
    "attention_mask": Example.mask,
    "decoder_attention_mask": Example.decoder_mask,
    "global_attention_mask": Example.global_mask,
    "token_type_ids": Example.token_types,
    "position_ids": Example.positions,
    "inputs_embeds": Example.embeddings,
    "decoder_inputs_embeds": Example.decoder_embeddings,
    "encoder_outputs": Example.encoder_outputs,
    "bbox": Example.boxes,
    "pixel_values": Example.pixels,
    "pixel_values_videos": Example.videos,
    "pixel_mask": Example.pixel_mask,
    "bool_masked_pos": Example.patch_mask,
    "visual_feats": Example.regions,
    "visual_pos": Example.region_boxes,
    "input_values": Example.waveform,
    "input_features": Example.spectrogram,
    "hidden_states": Example.vision_states,
    "encoder_hidden_states": Example.encoded,
    "image_grid_thw": grid,
    "grid_thw": grid,
    "video_grid_thw": grid,
    "merge_sizes": merge_sizes,
    "image_merge_sizes": merge_sizes,
    "video_merge_sizes": merge_sizes,
    "mm_token_type_ids": token_kinds,
    "spatial_shapes": spatial_shapes,
    "high_res_pixel_values": high_resolution,
    "image_attention_mask": image_attention_mask,
    "cross_attention_mask": cross_attention_mask,
    "image_embeds_position_mask": latent_places,
    "image_sizes": image_sizes,
    "pixel_attention_mask": pixel_attention_mask,
    "aspect_ratio_ids": aspect_ratio_ids,
    "aspect_ratio_mask": aspect_ratio_mask,
    "input_features_mask": Example.features_mask,
    "past_values": Example.past,
    "past_values_padding": Example.past_padding,
    "past_observed_mask": Example.past_mask,
    "past_time_features": Example.past_features,
    "future_values": Example.future,
    "future_time_features": Example.future_features,
    "labels": Example.labels,
    "start_positions": Example.span_ends,
    "end_positions": Example.span_ends,
    "next_sentence_label": Example.next_sentence,
}
