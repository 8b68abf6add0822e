"""The built-in models: small, trained by scripts/train_models.py, and stored beside this file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor, nn

from fxopt.models.digits import DigitsConvNet, DigitsTransformer
from fxopt.models.safetensors_file import load_aligned
from fxopt.models.source import Inputs, SizeRange, Sizes
from fxopt.process.one_at_a_time import one_at_a_time

ASSETS = Path(__file__).parent / "assets"

_SIZES = Sizes(batch=SizeRange(8, most=256))


def stored_digits() -> tuple[Tensor, Tensor]:
    """Return test digits, unseen by the models in training: images (count, 1, 8, 8) from 0 to 1, and labels."""
    stored = load_aligned(ASSETS / "digits.safetensors")
    return stored["pixels"].float() / 16, stored["labels"]


@dataclass(frozen=True)
class TrainedModel:
    """A classifier of handwritten digits whose weights come with fxopt."""

    key: str
    title: str
    shows: str
    kind: type[nn.Module]
    sizes: Sizes = _SIZES

    @property
    def accuracy(self) -> float:
        """The share of the test digits that it gets right, as its training wrote it down."""
        with safe_open(self._file, framework="pt") as file:
            return float(json.loads(file.metadata()["training"])["accuracy"])

    @property
    def description(self) -> str:
        return f"Trained on handwritten digits of 8 x 8 pixels; {self.accuracy:.1%} right. {self.shows}"

    def build(self) -> nn.Module:
        # the global generator keeps its state: every weight is assigned from the file
        with one_at_a_time(), torch.device("meta"):
            model = self.kind()
        model.load_state_dict(load_aligned(self._file), assign=True)
        return model.eval()

    def inputs(self, model: nn.Module, batch: int | None = None, sequence: int | None = None) -> Inputs:
        """Return real test digits; beyond those that are stored they come again."""
        batch, _ = self.sizes.checked(self.key, batch, sequence)
        images, _ = stored_digits()
        return (images[torch.arange(batch) % len(images)],), {}

    @property
    def _file(self) -> Path:
        return ASSETS / f"{self.key}.safetensors"


TRAINED = (
    TrainedModel(
        key="digits_conv_net",
        title="Digits: convolutions and batch norm",
        shows="Batch norms that fold into convolutions and a linear, and some that cannot.",
        kind=DigitsConvNet,
    ),
    TrainedModel(
        key="digits_transformer",
        title="Digits: a small transformer",
        shows="Query, key and value to merge, and scores divided by the square root of 12.",
        kind=DigitsTransformer,
    ),
)
