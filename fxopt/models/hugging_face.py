"""transformers, where it is installed, and inputs that its models accept."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from fxopt.core.errors import ModelError
from fxopt.models.source import Inputs

_SEED = 0
_POSITIONS_AFTER_PADDING = {
    "camembert", "data2vec-text", "ibert", "longformer", "mpnet", "roberta", "roberta-prelayernorm",
    "xlm-roberta", "xlm-roberta-xl", "xmod",
}  # fmt: skip


def transformers_module() -> ModuleType:
    """The transformers package. Importing it takes seconds, so nothing imports it before it is needed."""
    try:
        return importlib.import_module("transformers")
    except ModuleNotFoundError as error:
        if error.name != "transformers":
            raise
        raise ModelError(
            "this model is an architecture of transformers, which is not installed; "
            "run: pip install 'transformers>=4.57'"
        ) from error


def longest_sequence(config: dict[str, Any]) -> int | None:
    """How many positions a text model with this config.json has; None where it does not say."""
    for name in ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx"):
        most = config.get(name)
        if isinstance(most, int) and most > 0:
            if config.get("model_type") in _POSITIONS_AFTER_PADDING:
                most -= (config.get("pad_token_id") or 0) + 1
            return most
    return None


def example_inputs(model: nn.Module, batch: int, sequence: int | None) -> Inputs:
    """Keyword inputs for a text or image model of transformers: the same for the same sizes.

    Text is random token ids; all rows but each fourth are padded at the end, so that masks matter.
    """
    config: Any = model.config
    accepted = inspect.signature(model.forward).parameters
    generator = torch.Generator().manual_seed(_SEED)
    inputs: dict[str, Any] = {}
    if "input_ids" in accepted and sequence is not None:
        mask = _mask(batch, sequence)
        text = getattr(config, "text_config", None) or config
        inputs["input_ids"] = _token_ids(text, mask, generator)
        if "attention_mask" in accepted:
            inputs["attention_mask"] = mask
        if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in accepted:
            inputs["decoder_input_ids"] = _token_ids(text, torch.ones_like(mask), generator)
    sees = getattr(config, "vision_config", None) or config
    if "pixel_values" in accepted and (sees is not config or "input_ids" not in accepted):
        size = getattr(sees, "image_size", None) or 224
        height, width = (size, size) if isinstance(size, int) else size
        shape = (batch, getattr(sees, "num_channels", 3), height, width)
        inputs["pixel_values"] = torch.randn(shape, generator=generator, dtype=_dtype(model))
    if not inputs:
        name = getattr(model, "main_input_name", "unknown")
        raise ModelError(
            f"{type(model).__name__}: its main input is {name}, and inputs are drawn for text (input_ids) "
            "and images (pixel_values) only; capture it with inputs of your own: fxopt.capture(model, args)"
        )
    return (), inputs


def _mask(batch: int, sequence: int) -> Tensor:
    """Ones, and zeros for padding: rows end after all, 7/8, 6/8, 5/8 of the positions, over and over."""
    lengths = torch.tensor([sequence - row % 4 * (sequence // 8) for row in range(batch)])
    return (torch.arange(sequence) < lengths[:, None]).long()


def _token_ids(config: Any, mask: Tensor, generator: torch.Generator) -> Tensor:
    first = min(1000, config.vocab_size // 2)  # the ids before it are mostly special tokens
    ids = torch.randint(first, config.vocab_size, mask.shape, generator=generator)
    padding = getattr(config, "pad_token_id", None)
    return ids if padding is None else ids.where(mask.bool(), torch.tensor(padding))


def _dtype(model: nn.Module) -> torch.dtype:
    return next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
