"""transformers, where it is installed, and calls that its models accept."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
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


@contextmanager
def without_bars() -> Iterator[None]:
    """Let transformers draw no bars of progress on standard error: fxopt tells of progress itself."""
    logging = importlib.import_module("transformers.utils.logging")
    was_on = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_on:
            logging.enable_progress_bar()


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


_ID = re.compile(r"(?P<owner>[A-Za-z0-9][\w.-]{0,95}/)?[A-Za-z0-9][\w.-]{0,95}")


def is_hub_id(text: str) -> bool:
    """Return whether a text may be the id of a model on the Hugging Face hub, ``owner/name``.

    >>> is_hub_id("google-bert/bert-base-uncased"), is_hub_id("bert-base"), is_hub_id("../bert"), is_hub_id("a/b/c")
    (True, False, False, False)
    """
    found = _ID.fullmatch(text)
    return found is not None and bool(found["owner"]) and ".." not in text and "--" not in text


def cached_folder(model_id: str) -> Path:
    """Return the folder of a model of the Hugging Face hub in the cache on this machine. Nothing is fetched.

    Raises:
        ModelError: it is not in the cache, or there is no library that knows the cache.
    """
    try:
        hub: Any = importlib.import_module("huggingface_hub")
    except ModuleNotFoundError as error:
        if error.name != "huggingface_hub":
            raise
        raise ModelError(
            f"{model_id}: models of the Hugging Face hub need its library, which comes with transformers; "
            "run: pip install 'transformers>=4.57'"
        ) from error
    config = hub.try_to_load_from_cache(model_id, "config.json")
    if not isinstance(config, str):
        raise ModelError(
            f"{model_id}: it is neither a folder nor a model in the cache of Hugging Face on this machine "
            f"({hub.constants.HF_HUB_CACHE}). fxopt fetches nothing: run hf download {model_id}, or give a folder"
        )
    return Path(config).parent
