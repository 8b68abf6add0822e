"""A linear layer with a packed weight."""

from __future__ import annotations

from collections.abc import Hashable

import torch
import torch.nn.functional as F
from torch import Tensor

from fxopt.packed.layer import PackedLayer
from fxopt.packed.onednn import is_available, operator
from fxopt.packed.weights import PackedWeight

if is_available():
    _linear, _linear_and_sum = operator("_linear_pointwise"), operator("_linear_pointwise", "binary")
    _reorder = operator("_reorder_linear_weight")


class PackedLinear(PackedLayer):
    """Compute `activation(x W^T + b + other)`; see `PackedLayer`.

    `x` is of shape (..., in features), `other` and the result of shape (..., out features). A sum has no activation.

    >>> import torch
    >>> layer = torch.nn.Linear(8, 4)
    >>> PackedLinear(layer.weight, layer.bias)
    PackedLinear(in_features=8, out_features=4, bias=True)
    """

    def _layer(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)

    def _row_by_torch(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return F.linear(x, weight, bias)

    def _takes(self, x: Tensor, weight: Tensor, other: Tensor | None) -> bool:
        if x.dim() < 2 or x.shape[-1] != weight.shape[1]:
            return False
        return other is None or (
            type(other) is Tensor
            and other.dtype is x.dtype
            and other.is_cpu
            and other.layout is torch.strided
            and other.shape[:-1] == x.shape[:-1]
            and other.shape[-1] == weight.shape[0]
            and other.is_contiguous()
        )

    def _by_onednn(self, x: Tensor, other: Tensor | None, bias: Tensor | None, packed: PackedWeight) -> Tensor:
        activation = self.activation if self.activation is not None and self.activation.keeps_nan else None
        y: Tensor
        if other is not None:
            y = _linear_and_sum(x, other, packed.tensor, bias, "add")
            activation = None
        else:
            last = ("none", (), "") if activation is None else activation.call
            y = _linear(x, packed.tensor, bias, *last)
        return y if self.activation is None or activation is not None else self.activation.in_place(y)

    @property
    def _form(self) -> tuple[Hashable, ...]:
        return ("linear",)

    def _size(self, x: Tensor) -> Hashable:
        return None

    def _pack(self, weight: Tensor, x: Tensor) -> Tensor | tuple[Tensor, ...]:
        packed: Tensor = _reorder(weight.contiguous(), None)
        return packed

    def extra_repr(self) -> str:
        rows, columns = self.weight.shape
        return f"in_features={columns}, out_features={rows}, bias={self.bias is not None}{super().extra_repr()}"
