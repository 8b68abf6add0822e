"""transformers, where it is installed, and calls that its models accept."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from torch import nn

from fxopt.errors import ModelError
from fxopt.models.source import Inputs
from fxopt.tracing import example_inputs

_POSITIONS_AFTER_PADDING = {
    "altclip_text_model", "bridgetower_text_model", "camembert", "clap_text_model", "data2vec-text", "esm", "ibert",
    "layoutlmv3", "lilt", "longformer", "luke", "markuplm", "mpnet", "roberta", "roberta-prelayernorm",
    "xlm-roberta", "xlm-roberta-xl", "xmod",
}  # fmt: skip
_PARTS = ("text_config", "encoder", "decoder")


def transformers_module() -> ModuleType:
    """Return the transformers package. Importing it takes seconds, so it is imported only when it is needed."""
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
    """Return the number of positions of a text model with this config.json; None if it leaves that open.

    For a pair of encoder and decoder with a config each, it is the smaller number; for a model with a text part, that
    of the part.
    """
    parts = parts_in(config)
    inherited = {name: value for name, value in config.items() if name not in _PARTS}
    said = [most for most in (_positions({**inherited, **part}) for part in parts or [config]) if most is not None]
    return min(said, default=None)


def parts_in(config: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the configs in a config.json that are of parts which may read text."""
    return [part for part in map(config.get, _PARTS) if isinstance(part, dict)]


def _positions(config: dict[str, Any]) -> int | None:
    for name in ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx"):
        most = config.get(name)
        if isinstance(most, int) and most > 0:
            if config.get("model_type") in _POSITIONS_AFTER_PADDING:
                padding = config.get("pad_token_id")
                most -= (padding if isinstance(padding, int) else 0) + 1
            return max(most, 1)
    return None


def example_call(model: nn.Module, batch: int, sequence: int | None) -> Inputs:
    """Return the call with made inputs for a model of transformers: the same for the same sizes.

    `sequence` is None for a model of images or sound.
    """
    return (), example_inputs(model, batch=batch, sequence=sequence or 16)
