"""Example inputs made from a model's config and signature, and `trace`, which captures with them."""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule

from fxopt.capture.checks import InputError
from fxopt.capture.ladder import capture


def trace(
    model: nn.Module,
    input_names: Sequence[str] | None = None,
    *,
    batch: int = 2,
    sequence: int = 16,
    disable_check: bool = False,
    tracer_cls: Any = None,
    **options: Any,
) -> GraphModule:
    """Capture a transformers model with example inputs of its own making.

    Takes the call of ``transformers.utils.fx.symbolic_trace``; ``disable_check`` is ``verify=False``.
    `options` are those of `capture`.
    """
    if tracer_cls is not None:
        raise InputError(
            f"fxopt records the running model, so tracer_cls={tracer_cls!r} has no part in it: "
            "leave it out, or trace with it and give the graph module to fxopt.capture"
        )
    if isinstance(model, GraphModule) and input_names is None:
        return model
    inputs = example_inputs(model, input_names, batch=batch, sequence=sequence)
    options.setdefault("verify", not disable_check)
    return capture(model, (), inputs, **options)


def example_inputs(
    model: nn.Module, input_names: Sequence[str] | None = None, *, batch: int = 2, sequence: int = 16
) -> dict[str, torch.Tensor]:
    """Tensors for the inputs of a transformers model by name; the same for the same model and sizes.

    Raises `InputError` for a model without a config, and for an input that it knows no rule for.
    """
    config = getattr(model, "config", None)
    if config is None:
        raise InputError(
            f"{type(model).__name__} has no config to make example inputs from: "
            "call fxopt.capture(model, args, kwargs) with an example"
        )
    parameters = inspect.signature(model.forward).parameters
    names = list(input_names) if input_names is not None else default_names(model)
    unknown = [name for name in names if name not in parameters]
    if unknown:
        raise InputError(
            f"{type(model).__name__}.forward takes no {', '.join(unknown)}; it takes {', '.join(parameters)}"
        )
    example = _Example(model, config, batch, sequence)
    # in the order of the signature, so that the graph takes them by position as the model does
    made = {name: example.tensor(name) for name in parameters if name in names}
    dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
    return {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in made.items()}


def default_names(model: nn.Module) -> list[str]:
    """The inputs that the model needs: its main one, its mask, both modalities, the decoder's."""
    parameters = inspect.signature(model.forward).parameters
    config: Any = model.config
    names = [getattr(model, "main_input_name", next(iter(parameters)))]
    both = hasattr(config, "text_config") and hasattr(config, "vision_config")
    both = both or (hasattr(config, "vocab_size") and hasattr(config, "patch_size"))
    if both and "input_ids" in parameters and "pixel_values" in parameters:
        names = ["input_ids", "pixel_values"]
    if "input_ids" in names and "attention_mask" in parameters:
        names.append("attention_mask")
    if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in parameters:
        names.append("decoder_input_ids")
    return names


@dataclass
class _Example:
    model: nn.Module
    config: Any
    batch: int
    sequence: int

    def tensor(self, name: str) -> torch.Tensor:
        rule = _RULES.get(name)
        if rule is None:
            raise InputError(
                f"no rule makes an example of {name}; there are rules for {', '.join(_RULES)}. "
                "Call fxopt.capture(model, args, kwargs) with an example"
            )
        # a generator for each name, so that a tensor does not depend on which others are asked for
        return rule(self, torch.Generator().manual_seed(zlib.crc32(name.encode())))

    def known(self, *names: str) -> Any:
        """The first of these settings that the config, or that of one of its parts, has."""
        parts = ("text_config", "vision_config", "audio_config", "encoder", "backbone_config")
        configs = [self.config, *(getattr(self.config, part, None) for part in parts)]
        for name in names:
            for config in configs:
                value = getattr(config, name, None)
                if value is not None:
                    return value
        raise InputError(
            f"the config of {type(self.model).__name__} says none of {', '.join(names)}, which an example "
            "needs: call fxopt.capture(model, args, kwargs) with an example"
        )

    def known_or(self, default: Any, *names: str) -> Any:
        try:
            return self.known(*names)
        except InputError:
            return default

    # ------------------------------------------------------------ rules
    def token_ids(self, generator: torch.Generator) -> torch.Tensor:
        """Ordinary tokens, and the end token last, which some pooling heads look for."""
        size = self.known("vocab_size")
        endings = ("pad_token_id", "bos_token_id", "eos_token_id", "sep_token_id", "decoder_start_token_id")
        special = {self.known_or(None, name) for name in endings}
        ordinary = torch.tensor([i for i in range(size) if i not in special])
        chosen = torch.randint(len(ordinary), (self.batch, self.sequence), generator=generator)
        ids = ordinary[chosen]
        end = self.known_or(None, "eos_token_id")
        if isinstance(end, int) and 0 <= end < size and self.sequence > 1:
            ids[:, -1] = end
        return ids

    def token_types(self, generator: torch.Generator) -> torch.Tensor:
        kinds = self.known_or(1, "type_vocab_size")
        return torch.randint(max(kinds, 1), (self.batch, self.sequence), generator=generator)

    def ones(self, generator: torch.Generator) -> torch.Tensor:
        return torch.ones(self.batch, self.sequence, dtype=torch.int64)

    def positions(self, generator: torch.Generator) -> torch.Tensor:
        return torch.arange(self.sequence).repeat(self.batch, 1)

    def embeddings(self, generator: torch.Generator) -> torch.Tensor:
        width = self.known("embedding_size", "hidden_size", "d_model", "n_embd")
        return torch.randn(self.batch, self.sequence, width, generator=generator)

    def boxes(self, generator: torch.Generator) -> torch.Tensor:
        corners = torch.randint(0, 500, (self.batch, self.sequence, 2), generator=generator)
        return torch.cat([corners, corners + 100], -1)

    def pixels(self, generator: torch.Generator) -> torch.Tensor:
        size = self.known_or(224, "image_size")
        height, width = (size, size) if isinstance(size, int) else tuple(size)
        channels = self.known_or(3, "num_channels")
        frames = self.known_or(None, "num_frames")
        shape = (self.batch, *([frames] if frames else []), channels, height, width)
        return torch.randn(shape, generator=generator)

    def waveform(self, generator: torch.Generator) -> torch.Tensor:
        if hasattr(self.config, "num_mel_bins") and hasattr(self.config, "max_length"):
            shape = (self.batch, self.config.max_length, self.config.num_mel_bins)
            return torch.randn(shape, generator=generator)
        return torch.randn(self.batch, 320 * self.sequence + 80, generator=generator)

    def spectrogram(self, generator: torch.Generator) -> torch.Tensor:
        bins = self.known_or(None, "num_mel_bins")
        if bins is not None and hasattr(self.config, "max_source_positions"):
            frames = 2 * self.config.max_source_positions  # whisper takes 30 seconds, no more and no less
            if not hasattr(self.config, "input_feat_per_channel"):
                return torch.randn(self.batch, bins, frames, generator=generator)
        width = self.known("input_feat_per_channel", "feature_projection_input_dim", "num_mel_bins")
        return torch.randn(self.batch, 8 * self.sequence, width, generator=generator)

    def labels(self, generator: torch.Generator) -> torch.Tensor:
        head = type(self.model).__name__
        if "SequenceClassification" in head or "ImageClassification" in head:
            return torch.randint(self.known("num_labels"), (self.batch,), generator=generator)
        if "TokenClassification" in head:
            count = self.known("num_labels")
            return torch.randint(count, (self.batch, self.sequence), generator=generator)
        if "MultipleChoice" in head:
            return torch.zeros(self.batch, dtype=torch.int64)
        return self.token_ids(generator)

    def span_ends(self, generator: torch.Generator) -> torch.Tensor:
        return torch.randint(self.sequence, (self.batch,), generator=generator)

    def next_sentence(self, generator: torch.Generator) -> torch.Tensor:
        return torch.randint(2, (self.batch,), generator=generator)


_RULES: dict[str, Callable[[_Example, torch.Generator], torch.Tensor]] = {
    "input_ids": _Example.token_ids,
    "decoder_input_ids": _Example.token_ids,
    "attention_mask": _Example.ones,
    "decoder_attention_mask": _Example.ones,
    "token_type_ids": _Example.token_types,
    "position_ids": _Example.positions,
    "inputs_embeds": _Example.embeddings,
    "bbox": _Example.boxes,
    "pixel_values": _Example.pixels,
    "input_values": _Example.waveform,
    "input_features": _Example.spectrogram,
    "labels": _Example.labels,
    "start_positions": _Example.span_ends,
    "end_positions": _Example.span_ends,
    "next_sentence_label": _Example.next_sentence,
}
