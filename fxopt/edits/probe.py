"""An identity module that records statistics of its input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from fxopt.core import TensorInfo

T = TypeVar("T")


@dataclass(frozen=True)
class Seen:
    """The last observation of a `Probe`: shape and dtype of the tensor, and statistics over its numbers."""

    info: TensorInfo
    smallest: float
    largest: float
    mean: float
    not_finite: int
    """The count of infinite numbers and NaNs."""

    def __str__(self) -> str:
        odd = f", {self.not_finite:,} not finite" if self.not_finite else ""
        return f"{self.info}, from {self.smallest:.4g} to {self.largest:.4g}, mean {self.mean:.4g}{odd}"


class Probe(nn.Module):
    """Return the input, and remember statistics of it; the tensor itself is let go.

    >>> probe = Probe()
    >>> probe(torch.tensor([1.0, 2.0, 6.0])).sum().item()
    9.0
    >>> print(probe.seen)
    float32 3, from 1 to 6, mean 3
    """

    def __init__(self) -> None:
        super().__init__()
        self.seen: Seen | None = None
        """None until a tensor with numbers has passed."""

    def forward(self, x: T) -> T:
        if isinstance(x, torch.Tensor) and not isinstance(x, FakeTensor) and not torch.compiler.is_compiling():
            self.seen = _seen(x)
        return x


def _seen(x: torch.Tensor) -> Seen | None:
    if x.is_meta or x.layout != torch.strided or x.is_complex() or not x.numel():
        return None
    with torch.no_grad():
        numbers = x.detach().to(torch.float64)
        finite = numbers[numbers.isfinite()]
        if not finite.numel():
            return Seen(TensorInfo.of(x), float("nan"), float("nan"), float("nan"), x.numel())
        low, high, mean = finite.min().item(), finite.max().item(), finite.mean().item()
        return Seen(TensorInfo.of(x), low, high, mean, numbers.numel() - finite.numel())
