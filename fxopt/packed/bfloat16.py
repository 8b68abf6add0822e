"""A linear layer that multiplies in bfloat16, with a packed weight."""

from __future__ import annotations

from collections.abc import Hashable

import torch
from torch import Tensor

from fxopt.packed.linear import PackedLinear
from fxopt.packed.weights import PackedWeight


class BFloat16Linear(PackedLinear):
    """Compute `activation(x W^T + b)`, with `x`, `W`, `b` and the result rounded to bfloat16; see `PackedLayer`.

    A number of bfloat16 has 8 bits of precision, so rounding moves it by at most 2^-9 of itself, about 0.2 %. The
    products are summed in float32. The parameters, the input and the result are of float32.

    >>> import torch
    >>> layer = torch.nn.Linear(8, 4)
    >>> BFloat16Linear(layer.weight, layer.bias)
    BFloat16Linear(in_features=8, out_features=4, bias=True)
    """

    most_of_a_row = 0

    def _takes(self, x: Tensor, weight: Tensor, other: Tensor | None) -> bool:
        return other is None and x.dtype is torch.float32 and super()._takes(x, weight, other)

    def _by_onednn(self, x: Tensor, other: Tensor | None, bias: Tensor | None, packed: PackedWeight) -> Tensor:
        narrow = None if bias is None else bias.bfloat16()
        return super()._by_onednn(x.bfloat16(), other, narrow, packed).float()

    @property
    def _form(self) -> tuple[Hashable, ...]:
        return ("linear", torch.bfloat16)

    def _pack(self, weight: Tensor, x: Tensor) -> Tensor | tuple[Tensor, ...]:
        return super()._pack(weight.bfloat16(), x)
