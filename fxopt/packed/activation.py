"""Activations that oneDNN applies to a number of a product before it is written to memory."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Activation:
    """An activation by the name of torch's function, with its constants."""

    name: str
    constants: tuple[float, ...] = ()
    algorithm: str = "none"

    @classmethod
    def of(cls, name: str, arguments: Mapping[str, Any]) -> Activation | None:
        """Return the activation that is torch's function `name` with these arguments; None for another function."""
        if name not in _FORMS:
            return None
        constants = tuple(arguments.get(key, default) for key, default in _FORMS[name].constants)
        if not all(isinstance(value, int | float) for value in constants):
            return None
        if name == "relu6":
            name, constants = "hardtanh", (0.0, 6.0)
        return cls(name, tuple(map(float, constants)), str(arguments.get("approximate", "none")))

    @functools.cached_property
    def call(self) -> tuple[str, tuple[float, ...], str]:
        """The name, constants and algorithm by which oneDNN's operators know it."""
        return _FORMS[self.name].attribute, self.constants, self.algorithm

    @functools.cached_property
    def keeps_nan(self) -> bool:
        """Whether oneDNN gives NaN for NaN, as torch does. Its `relu` gives 0, and hides a fault of the model.

        A `leaky_relu` without a slope is a `relu` to it.
        """
        is_relu = self.name == "leaky_relu" and not torch.tensor(self.constants, dtype=torch.float32).any()
        return self.name not in _HIDES_NAN and not is_relu

    def bound(self, bound: float) -> float:
        """Return a bound of the results for numbers that are at most `bound`, without their signs."""
        if self.name == "hardtanh":
            return max(map(abs, self.constants))
        if self.name in _WITHIN_ONE:
            return 1.0
        return bound * max([1.0, *map(abs, self.constants)])

    def in_place(self, x: Tensor) -> Tensor:
        """Compute it by torch's own function, into the memory of `x` where there is such a function."""
        if self.name == "relu":
            return torch.relu_(x)
        if self.name == "hardtanh":
            return F.hardtanh_(x, *self.constants)
        return self(x)

    def __call__(self, x: Tensor) -> Tensor:
        """Compute it by torch's own function."""
        if self.name == "gelu":
            return F.gelu(x, approximate=self.algorithm)
        return _FORMS[self.name].function(x, *self.constants)

    def __str__(self) -> str:
        given = [f"{value:g}" for value in self.constants]
        if self.algorithm != "none":
            given.append(self.algorithm)
        return f"{self.name}({', '.join(given)})" if given else self.name


@dataclass(frozen=True)
class _Form:
    attribute: str
    function: Callable[..., Tensor]
    constants: tuple[tuple[str, float], ...] = ()


_FORMS: dict[str, _Form] = {
    "relu": _Form("relu", torch.relu),
    "relu6": _Form("hardtanh", F.relu6),
    "hardtanh": _Form("hardtanh", F.hardtanh, (("min_val", -1.0), ("max_val", 1.0))),
    "leaky_relu": _Form("leaky_relu", F.leaky_relu, (("negative_slope", 0.01),)),
    "gelu": _Form("gelu", F.gelu),
    "silu": _Form("swish", F.silu),
    "sigmoid": _Form("sigmoid", torch.sigmoid),
    "tanh": _Form("tanh", torch.tanh),
    "hardswish": _Form("hardswish", F.hardswish),
    "hardsigmoid": _Form("hardsigmoid", F.hardsigmoid),
}
"""By the name of the function in ATen."""

_WITHIN_ONE = {"sigmoid", "tanh", "hardsigmoid"}
_HIDES_NAN = {"relu", "hardtanh", "hardsigmoid"}

ACTIVATIONS = tuple(_FORMS)
