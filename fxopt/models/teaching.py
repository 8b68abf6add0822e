"""The models of the lessons: a few nodes each, made so that one question has a clear answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fxopt.models.seeded import seeded_model
from fxopt.models.source import Inputs, SizeRange, Sizes
from fxopt.process.one_at_a_time import one_at_a_time

_SEED = 0
_SIZES = Sizes(batch=SizeRange(4, most=256))


class Divisions(nn.Module):
    """Numbers of shape (batch, 250), divided by 2, 49 and 3: three outputs."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x / 2, x / 49, x / 3


class OneNorm(nn.Module):
    """Images of shape (batch, 1, 8, 8): a convolution without bias, its batch norm, a ReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, kernel_size=3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(2)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.norm(self.conv(x)))


class GroupedQueries(nn.Module):
    """Tokens of shape (batch, 16, 48): four heads of queries share one head of keys and values."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(48, 48)
        self.key = nn.Linear(48, 12)
        self.value = nn.Linear(48, 12)
        self.out = nn.Linear(48, 48)

    def forward(self, x: Tensor) -> Tensor:
        query = self.query(x).unflatten(-1, (4, 12)).transpose(1, 2)
        key, value = self.key(x).unsqueeze(1), self.value(x).unsqueeze(1)
        scores = (query @ key.transpose(-1, -2)).softmax(-1)
        return self.out((scores @ value).transpose(1, 2).flatten(2))


class NearMisses(nn.Module):
    """Images of shape (batch, 4, 8, 8) through convolutions with norms, of which all but one are near misses.

    Mended, each of them matches.
    """

    def __init__(self, mended: bool) -> None:
        super().__init__()
        self.mended = mended
        self.plain, self.trained, self.watched, self.written, self.shared = (_conv() for _ in range(5))
        self.plain_norm, self.trained_norm, self.watched_norm, self.written_norm = (nn.BatchNorm2d(4) for _ in range(4))
        self.first_norm, self.second_norm = nn.BatchNorm2d(4), nn.BatchNorm2d(4)
        self.other = _conv() if mended else self.shared
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.plain_norm(self.plain(x)))
        x = self.relu(self.trained_norm(self.trained(x)))
        x = self.relu(self.watched_norm(self.watched(x)))
        x = self.written(x)
        x = self.written_norm(x) + 1 if self.mended else self.written_norm(x.add_(1))
        x = self.relu(self.first_norm(self.shared(self.relu(x))))
        return self.relu(self.second_norm(self.other(x)))


def _conv() -> nn.Conv2d:
    return nn.Conv2d(4, 4, kernel_size=3, padding=1)


def _watch(module: nn.Module, args: Any, output: Any) -> None:
    """Stand for a hook that someone left on a module."""


def _near_misses() -> nn.Module:
    model = seeded_model(lambda: NearMisses(mended=False), _SEED)
    model.get_submodule("trained_norm").train()
    model.get_submodule("watched").register_forward_hook(_watch)
    return model


class Cluttered(nn.Module):
    """Rows of shape (batch, 65536): a scale and a division, and between them steps that do nothing, as of exports."""

    def __init__(self) -> None:
        super().__init__()
        self.dropouts = nn.ModuleList(nn.Dropout(0.1) for _ in range(4))
        self.scale = nn.Parameter(torch.ones(65536))

    def forward(self, x: Tensor) -> Tensor:
        x = x * self.scale
        for dropout in self.dropouts:
            x = dropout(x * 1.0) + 0.0
            x = x / 1.0
        return (x / 3.0).relu()


class Products(nn.Module):
    """Rows of shape (batch, 64): products by one and by two. Of the first one, a view is written to."""

    def forward(self, x: Tensor) -> Tensor:
        kept = x * 1
        kept[:, 0].add_(1)
        doubled = x * 2
        return kept + doubled + x.relu() * 1 + x.tanh() * 1.0 + x.sigmoid() * 1


@dataclass(frozen=True)
class TeachingModel:
    """A model of the lessons, with seeded random weights, and its inputs of one shape."""

    key: str
    title: str
    shows: str
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    """Of one input, without the batch."""
    sizes: Sizes = _SIZES

    @property
    def description(self) -> str:
        return f"A model of the lessons, with seeded random weights: its outputs mean nothing. {self.shows}"

    def build(self) -> nn.Module:
        with one_at_a_time():
            return self.make()

    def inputs(self, model: nn.Module, batch: int | None = None, sequence: int | None = None) -> Inputs:
        batch, _ = self.sizes.checked(self.key, batch, sequence)
        return (torch.rand((batch, *self.shape), generator=torch.Generator().manual_seed(_SEED)),), {}


TEACHING = (
    TeachingModel(
        key="lesson_divisions",
        title="Lesson: three divisions",
        shows="By 2, by 49 and by 3.",
        make=lambda: seeded_model(Divisions, _SEED),
        shape=(250,),
    ),
    TeachingModel(
        key="lesson_one_norm",
        title="Lesson: one batch norm",
        shows="A convolution without bias, and its norm.",
        make=lambda: seeded_model(OneNorm, _SEED),
        shape=(1, 8, 8),
    ),
    TeachingModel(
        key="lesson_grouped_queries",
        title="Lesson: grouped queries",
        shows="Fewer keys and values than queries.",
        make=lambda: seeded_model(GroupedQueries, _SEED),
        shape=(16, 48),
    ),
    TeachingModel(
        key="lesson_near_misses",
        title="Lesson: near misses",
        shows="Six norms behind convolutions; not all can be folded.",
        make=_near_misses,
        shape=(4, 8, 8),
    ),
    TeachingModel(
        key="lesson_mended",
        title="Lesson: near misses, mended",
        shows="The same six norms, after the remedies.",
        make=lambda: seeded_model(lambda: NearMisses(mended=True), _SEED),
        shape=(4, 8, 8),
    ),
    TeachingModel(
        key="lesson_cluttered",
        title="Lesson: a cluttered model",
        shows="Steps that do nothing, on many numbers.",
        make=lambda: seeded_model(Cluttered, _SEED),
        shape=(65536,),
    ),
    TeachingModel(
        key="lesson_products",
        title="Lesson: five products",
        shows="Four by one, and one by two. A view of the first is written to.",
        make=lambda: seeded_model(Products, _SEED),
        shape=(64,),
    ),
)
