"""The models of whoever serves the page, given in Python: they come first in the picker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from fxopt.errors import ModelError
from fxopt.models import ZOO, Inputs, ModelSource, SizeRange, Sizes, model_source


@dataclass(frozen=True, eq=False)
class OwnModel:
    """A model in eval mode that this process holds, with the one example that it is captured with."""

    title: str
    """Its name in the picker: ``model.py:make``."""
    model: nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    @property
    def key(self) -> str:
        return f"own:{self.title}"

    @property
    def description(self) -> str:
        return f"A {type(self.model).__name__} that was given when the page was started, with its own example."

    @property
    def sizes(self) -> Sizes:
        tensors = [one for one in tree_leaves((self.args, dict(self.kwargs))) if isinstance(one, torch.Tensor)]
        batch = next((one.shape[0] for one in tensors if one.dim() and one.shape[0]), 1)
        return Sizes(SizeRange(batch, most=batch, least=batch))

    def build(self) -> nn.Module:
        """Return the model itself: the page only reads it."""
        return self.model

    def inputs(self, model: nn.Module, batch: int | None = None, sequence: int | None = None) -> Inputs:
        """Return the example; its sizes are its own."""
        return self.args, dict(self.kwargs)


_OWN: dict[str, OwnModel] = {}
"""By key. They belong to the process, as its command line does, and are there before the first visitor comes."""


def offer(models: Sequence[OwnModel]) -> None:
    """Offer these models in the picker, before the built-in ones, instead of those that were offered before.

    Raises:
        ModelError: two of them have one name.
    """
    if len({one.key for one in models}) < len(models):
        raise ModelError("two models have one name; give each once")
    _OWN.clear()
    _OWN.update({one.key: one for one in models})


def offered() -> tuple[ModelSource, ...]:
    """Return the models of the picker, in its order."""
    return (*_OWN.values(), *ZOO)


def offered_source(key: str) -> ModelSource:
    """Return the model of the picker with this key.

    Raises:
        ModelError: there is none.
    """
    return _OWN[key] if key in _OWN else model_source(key)
