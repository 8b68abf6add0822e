"""Examples of text and its labels: token ids with padding, masks, positions, the output of an encoder."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import torch
from torch import Generator, Tensor

from fxopt.tracing.example import CACHES, Example
from fxopt.tracing.hygiene import preserved

_SPECIAL = (
    "pad_token_id", "bos_token_id", "eos_token_id", "sep_token_id", "decoder_start_token_id", "image_token_id",
    "image_token_index", "video_token_id", "audio_token_id", "vision_start_token_id", "vision_end_token_id",
)  # fmt: skip


def padding(example: Example) -> Tensor:
    """Return ones, and zeros for padding: rows end after all, 7/8, 6/8, 5/8 of the positions, over and over."""
    rows = torch.arange(example.batch) % 4 * (example.sequence // 8)
    return (torch.arange(example.sequence) < example.sequence - rows[:, None]).long()


def mask(example: Example, generator: Generator) -> Tensor:
    if example.takes_waves:
        return torch.ones(example.batch, example.samples, dtype=torch.int64)
    if example.has_cache and not example.known_or(False, "is_encoder_decoder"):  # it masks the cached tokens, too
        return torch.cat([padding(example), torch.ones(example.batch, 1, dtype=torch.int64)], 1)
    padded = padding(example)
    return padded[:, None].expand(example.tokens).contiguous() if len(example.tokens) == 3 else padded


def decoder_mask(example: Example, generator: Generator) -> Tensor:
    length = 1 - (-example.sequence // 2) if example.has_cache else example.sequence
    return torch.ones(example.batch, length, dtype=torch.int64)


def token_ids(example: Example, generator: Generator) -> Tensor:
    """Return ordinary tokens, the end token last, which some pooling heads look for, and padding."""
    ids = _ordinary_ids(example, example.tokens, generator)
    if ids.shape[-1] == 1:
        return ids
    first = 1
    for token, count in example.placed.items():
        ids[..., first : first + count] = token
        first += count
    mask = padding(example)[:, None] if ids.dim() == 3 else padding(example)
    end, pad = _id(example, "eos_token_id"), _id(example, "pad_token_id")
    if end is not None:
        last = torch.arange(example.sequence) == mask.sum(-1, keepdim=True) - 1
        ids = ids.masked_fill(last, end)
    return ids if pad is None else ids.masked_fill(mask == 0, pad)


def encoder_ids(example: Example, generator: Generator) -> Tensor:
    """Return the ids for a model of two sides: its encoder reads all tokens again, with a cache as well."""
    whole = (
        replace(example, made={name: each for name, each in example.made.items() if name not in CACHES})
        if example.known_or(False, "is_encoder_decoder")
        else example
    )
    return token_ids(whole, generator)


def decoder_ids(example: Example, generator: Generator) -> Tensor:
    """Return ids of the decoder's vocabulary, which differs from the encoder's if each has a config of its own."""
    channels = getattr(getattr(example.config, "decoder_config", None), "num_channels", None)  # of sound, in Dia
    shape = example.tokens if channels is None else (*example.tokens, channels)
    return _ordinary_ids(replace(example, part="decoder"), shape, generator)


def _ordinary_ids(example: Example, shape: tuple[int, ...], generator: Generator) -> Tensor:
    size = example.known("vocab_size", "num_hash_buckets")  # CANINE reads characters, and hashes them
    ordinary = torch.ones(size, dtype=torch.bool)
    ordinary[: min(1000, size // 2)] = False  # mostly special tokens
    for name in _SPECIAL:
        special = _id(example, name)
        if special is not None:
            ordinary[special] = False
    known = ordinary.nonzero()[:, 0]
    return known[torch.randint(len(known), shape, generator=generator)]


def _id(example: Example, name: str) -> int | None:
    """Return a special token of the vocabulary; the first if there are several."""
    value = example.known_or(None, name)
    first = value[0] if isinstance(value, list) and value else value
    return first if isinstance(first, int) and 0 <= first < example.known("vocab_size", "num_hash_buckets") else None


def token_types(example: Example, generator: Generator) -> Tensor:
    kinds = example.known_or(1, "type_vocab_size")
    return torch.randint(max(kinds, 1), example.tokens, generator=generator)


def positions(example: Example, generator: Generator) -> Tensor:
    first = example.sequence if example.has_cache else 0
    return torch.arange(first, first + example.tokens[-1]).expand(example.tokens).contiguous()


def global_mask(example: Example, generator: Generator) -> Tensor:
    """Return a mask with global attention at the first token only."""
    mask = torch.zeros(example.tokens, dtype=torch.int64)
    mask[..., 0] = 1
    return mask


def embeddings(example: Example, generator: Generator) -> Tensor:
    width = example.known("embedding_size", "hidden_size", "d_model", "n_embd")
    return torch.randn(*example.tokens, width, generator=generator)


def decoder_embeddings(example: Example, generator: Generator) -> Tensor:
    return embeddings(replace(example, part="decoder"), generator)


def encoded(example: Example, generator: Generator) -> Tensor:
    """Return an encoder's output for a decoder or a Q-former: vectors of the encoder's own width."""
    width = example.known("encoder_hidden_size", "cross_attention_hidden_size", "hidden_size", "d_model")
    return torch.randn(example.batch, example.sequence, width, generator=generator)


def boxes(example: Example, generator: Generator) -> Tensor:
    most = example.known_or(1024, "max_2d_position_embeddings")
    corners = torch.randint(0, min(500, most // 2), (*example.tokens, 2), generator=generator)
    return torch.cat([corners, corners + min(100, most // 4)], -1)


def encoder_outputs(example: Example, generator: Generator) -> Any:
    """Return the output of this model's encoder for its inputs."""
    model: Any = example.model
    encoder = model.get_encoder()
    main = encoder.main_input_name
    names = [name for name in (main, "attention_mask") if name in inspect.signature(encoder.forward).parameters]
    with preserved(example.model), torch.no_grad():
        return encoder(**{name: example.value(name) for name in names})


def labels(example: Example, generator: Generator) -> Tensor:
    head = type(example.model).__name__
    if "SequenceClassification" in head or "ImageClassification" in head:
        if example.known_or(None, "problem_type") in ("regression", "multi_label_classification"):
            return torch.rand(example.batch, example.known("num_labels"), generator=generator)
        return torch.randint(example.known("num_labels"), (example.batch,), generator=generator)
    if "TokenClassification" in head:
        return torch.randint(example.known("num_labels"), example.tokens, generator=generator)
    if "MultipleChoice" in head:
        return torch.zeros(example.batch, dtype=torch.int64)
    return decoder_ids(example, generator)


def span_ends(example: Example, generator: Generator) -> Tensor:
    return torch.randint(example.sequence, (example.batch,), generator=generator)


def next_sentence(example: Example, generator: Generator) -> Tensor:
    return torch.randint(2, (example.batch,), generator=generator)
