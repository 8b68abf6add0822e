"""Interface of a source of models: it builds a model and draws inputs for it, at sizes it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor, nn

from fxopt.errors import ModelError

Inputs = tuple[tuple[Any, ...], dict[str, Any]]
"""The arguments of a model: positional arguments, then keyword arguments."""


def as_inputs(example: Any) -> Inputs:
    """Return the arguments that an example stands for: a tuple or list of positional ones, a mapping of keyword
    arguments, or one tensor.

    Raises:
        ModelError: it is none of these.

    >>> as_inputs({"x": 1})
    ((), {'x': 1})
    """
    if isinstance(example, Mapping):
        return (), dict(example)
    if isinstance(example, Tensor):
        return (example,), {}
    if not isinstance(example, tuple | list):
        kind = type(example).__name__
        raise ModelError(
            f"the inputs are of type {kind}; give a tuple of arguments, a dict of keyword ones, or a tensor"
        )
    return tuple(example), {}


@dataclass(frozen=True)
class SizeRange:
    """The values that one size of the inputs may take, and its default."""

    default: int
    most: int
    least: int = 1

    def checked(self, value: int | None, name: str, source: str) -> int:
        """Return `value`, or the default for None; raise a `ModelError` if it is out of range."""
        if value is None:
            return self.default
        if not isinstance(value, int) or isinstance(value, bool) or not self.least <= value <= self.most:
            raise ModelError(f"{source}: {name} is {value!r}; give a whole number {self}")
        return value

    def __str__(self) -> str:
        return f"from {self.least} to {self.most}"


@dataclass(frozen=True)
class Sizes:
    """The sizes that a model's inputs are drawn at; `sequence` is None if they have no length."""

    batch: SizeRange
    sequence: SizeRange | None = None

    def checked(self, source: str, batch: int | None, sequence: int | None) -> tuple[int, int | None]:
        """Return the batch and sequence to use, defaults filled in.

        >>> Sizes(SizeRange(2, most=8)).checked("digits", 9, None)
        Traceback (most recent call last):
        fxopt.errors.ModelError: digits: batch is 9; give a whole number from 1 to 8
        """
        batch = self.batch.checked(batch, "batch", source)
        if self.sequence is not None:
            return batch, self.sequence.checked(sequence, "sequence", source)
        if sequence is not None:
            raise ModelError(f"{source}: its inputs have no sequence length; leave sequence out")
        return batch, None


class ModelSource(Protocol):
    """One line of the model picker."""

    @property
    def key(self) -> str:
        """A short name, unique in the zoo, that recipes and URLs can carry."""

    @property
    def title(self) -> str: ...

    @property
    def description(self) -> str:
        """The model and the origin of its weights, in a sentence or two."""

    @property
    def sizes(self) -> Sizes: ...

    def build(self) -> nn.Module:
        """Return a new model with the same weights on each call, in eval mode but for a norm that a lesson is about."""

    def inputs(self, model: nn.Module, batch: int | None = None, sequence: int | None = None) -> Inputs:
        """Return inputs for `model`, which `build` returned: the same on each call."""
