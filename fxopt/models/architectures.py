"""Architectures of transformers, built from their configs with seeded random weights."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from fxopt.errors import ModelError
from fxopt.models.hugging_face import example_call, transformers_module
from fxopt.models.seeded import seeded_model
from fxopt.models.source import Inputs, SizeRange, Sizes
from fxopt.process.one_at_a_time import one_at_a_time

_SEED = 0
_IMAGE_NET = {"num_labels": 1000}
_IMAGES = Sizes(batch=SizeRange(1, most=32))


def _text(most: int) -> Sizes:
    return Sizes(batch=SizeRange(1, most=32), sequence=SizeRange(32, most=most))


@dataclass(frozen=True)
class Architecture:
    """A model class of transformers and the config it is built from, by name.

    `settings` are the differences from the config's defaults, which are those of the model in `title`.
    """

    key: str
    title: str
    shows: str
    model: str
    config: str
    sizes: Sizes
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def description(self) -> str:
        return f"transformers' {self.model} with seeded random weights: its outputs mean nothing. {self.shows}"

    def build(self) -> nn.Module:
        transformers = transformers_module()
        kind, config_kind = getattr(transformers, self.model), getattr(transformers, self.config)
        with one_at_a_time():
            return seeded_model(lambda: kind(config_kind(**self.settings)), _SEED)

    def inputs(self, model: nn.Module, batch: int | None = None, sequence: int | None = None) -> Inputs:
        return example_call(model, *self.sizes.checked(self.key, batch, sequence))


ARCHITECTURES = (
    Architecture(
        key="bert-base",
        title="BERT-base",
        shows="12 layers whose query, key and value can be merged; attention multiplies, it no longer divides.",
        model="BertModel",
        config="BertConfig",
        sizes=_text(512),
    ),
    Architecture(
        key="distilbert-base",
        title="DistilBERT-base",
        shows="BERT's layers, six of them.",
        model="DistilBertModel",
        config="DistilBertConfig",
        sizes=_text(512),
    ),
    Architecture(
        key="mpnet-base",
        title="MPNet-base",
        shows="Like BERT, and its attention divides the scores by the square root of 64.",
        model="MPNetModel",
        config="MPNetConfig",
        sizes=_text(512),
        settings={"max_position_embeddings": 514},  # two of them stand before the first token
    ),
    Architecture(
        key="gpt2",
        title="GPT-2",
        shows="Its layers are Conv1D, which “Addmm to linear” makes linear for other passes; output weights are tied.",
        model="GPT2LMHeadModel",
        config="GPT2Config",
        sizes=_text(1024),
        settings={"use_cache": False},
    ),
    Architecture(
        key="llama-small",
        title="Llama, 8 layers of width 512",
        shows="Linears without bias, fewer keys than queries, a gated perceptron. Smaller than any released one.",
        model="LlamaForCausalLM",
        config="LlamaConfig",
        sizes=_text(2048),
        settings={
            "hidden_size": 512,
            "intermediate_size": 1376,
            "num_hidden_layers": 8,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "use_cache": False,
        },
    ),
    Architecture(
        key="t5-small",
        title="T5-small",
        shows="An encoder and a decoder; linears without bias; one embedding under several names.",
        model="T5ForConditionalGeneration",
        config="T5Config",
        sizes=_text(512),
        settings={"use_cache": False},
    ),
    Architecture(
        key="vit-base",
        title="ViT-base, patches of 16",
        shows="A transformer over 197 patches of an image.",
        model="ViTForImageClassification",
        config="ViTConfig",
        sizes=_IMAGES,
        settings=_IMAGE_NET,
    ),
    Architecture(
        key="resnet-50",
        title="ResNet-50",
        shows="53 convolutions, each followed by a batch norm that folds into it.",
        model="ResNetForImageClassification",
        config="ResNetConfig",
        sizes=_IMAGES,
        settings=_IMAGE_NET,
    ),
    Architecture(
        key="groupvit",
        title="GroupViT",
        shows="Text and image encoders; linears followed by batch norm; divisions by a tensor, which stay.",
        model="GroupViTModel",
        config="GroupViTConfig",
        sizes=Sizes(batch=SizeRange(1, most=16), sequence=SizeRange(16, most=77)),
    ),
)


def import_architectures() -> None:
    """Import the classes of all of them, where transformers is installed: seconds that the first to open one waits."""
    with contextlib.suppress(ModelError):
        transformers = transformers_module()
        for architecture in ARCHITECTURES:
            getattr(transformers, architecture.model)
            getattr(transformers, architecture.config)
