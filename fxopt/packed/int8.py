"""A linear layer that multiplies integers of 8 bits, with a packed weight."""

from __future__ import annotations

import functools
from collections.abc import Hashable

import torch
from torch import Tensor

from fxopt.packed.activation import Activation
from fxopt.packed.linear import PackedLinear
from fxopt.packed.onednn import is_available
from fxopt.packed.weights import PackedWeight

MOST_WEIGHT, MOST_INPUT = 127, 255
"""The integers of a weight are from -127 to 127, those of an input from 0 to 255."""
MOST_COLUMNS = (2**31 - 1) // (MOST_WEIGHT * MOST_INPUT)
"""A sum of so many products of them is sure to fit into 32 bits."""
Span = tuple[float, float]
"""The least and the largest number of an input."""


class Int8Linear(PackedLinear):
    """Compute `activation(x W^T + b)` of float32 by a product of integers of 8 bits; see `PackedLayer`.

    Each row of `W` becomes `round(W / s)`, with `s` a 127th of its largest absolute value. `x` becomes
    `round(x / t) + z`, with `t` a 255th of the span of its numbers, which always holds 0. The product of the two is
    exact; times `s t` it is the result. Numbers outside of a given span count as its ends.

    Args:
        weight, bias, activation: as of `PackedLinear`.
        span: of the inputs, measured before: static quantization. Without it, each call takes that of its own `x`:
            dynamic quantization. The result for one row then depends on the other rows.

    Inputs and weights with a NaN, an infinity or a number of 1e15 or more, and inputs of zeros alone, are computed by
    torch in float32.

    >>> import torch
    >>> layer = torch.nn.Linear(8, 4)
    >>> Int8Linear(layer.weight, layer.bias, span=(-2.0, 2.0))
    Int8Linear(in_features=8, out_features=4, bias=True, span=(-2, 2))
    """

    most_of_a_row = 0

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor | None,
        activation: Activation | None = None,
        *,
        span: Span | None = None,
        training: bool = False,
    ) -> None:
        super().__init__(weight, bias, activation, training=training)
        self.span = None if span is None else (min(span[0], 0.0), max(span[1], 0.0))

    def _takes(self, x: Tensor, weight: Tensor, other: Tensor | None) -> bool:
        return other is None and x.dtype is torch.float32 and super()._takes(x, weight, other)

    def _by_onednn(self, x: Tensor, other: Tensor | None, bias: Tensor | None, packed: PackedWeight) -> Tensor:
        numbers = torch.stack(torch.aminmax(x)).tolist()
        low, high = (min(numbers[0], 0.0), max(numbers[1], 0.0)) if self.span is None else self.span
        step = (high - low) / MOST_INPUT
        if not packed.beside or not all(abs(one) < _LARGE for one in numbers) or step < _SMALL:
            return self.by_torch(x, other)
        zero = round(-low / step)
        narrow = (x * (1 / step)).round_().add_(zero).clamp_(0, MOST_INPUT).to(torch.uint8)
        (scales,) = packed.beside
        y = _product(narrow, step, zero, packed.tensor, scales, bias)
        return y if self.activation is None else self.activation.in_place(y)

    @property
    def _form(self) -> tuple[Hashable, ...]:
        return ("linear", torch.int8)

    def _pack(self, weight: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        scales = (weight.abs().amax(1) / MOST_WEIGHT).clamp_min(_SMALL)
        if not bool((scales < _LARGE).all()):
            return (weight,)
        narrow = (weight / scales[:, None]).round_().clamp_(-MOST_WEIGHT, MOST_WEIGHT).to(torch.int8)
        return torch.ops.onednn.qlinear_prepack(narrow.contiguous(), None), scales

    def extra_repr(self) -> str:
        span = "" if self.span is None else f", span=({self.span[0]:g}, {self.span[1]:g})"
        return f"{super().extra_repr()}{span}"


def _product(x: Tensor, step: float, zero: int, weight: Tensor, scales: Tensor, bias: Tensor | None) -> Tensor:
    """Return the product in float32 of integers: an input, and a weight that is packed, whose zero is 0."""
    zeros = torch.zeros_like(scales, dtype=torch.int32)
    result = (1.0, 0, torch.float32, "none", (), "")
    y: Tensor = torch.ops.onednn.qlinear_pointwise(x, step, zero, weight, scales, zeros, bias, *result)
    return y


@functools.cache
def multiplies_int8() -> bool:
    """Return whether oneDNN multiplies integers of 8 bits exactly here.

    A processor without the instructions of VNNI adds two products in 16 bits, and cuts what is larger.
    """
    if not (is_available() and hasattr(torch.ops.onednn, "qlinear_prepack")):
        return False
    columns = 256
    with torch.inference_mode(False), torch.no_grad():
        largest = torch.full((16, columns), MOST_WEIGHT, dtype=torch.int8)
        packed = torch.ops.onednn.qlinear_prepack(largest, None)
        x = torch.full((2, columns), MOST_INPUT, dtype=torch.uint8)
        products = _product(x, 1.0, 0, packed, torch.ones(16), None)
    return bool((products == MOST_INPUT * MOST_WEIGHT * columns).all())


_SMALL, _LARGE = 1e-30, 1e15
"""Numbers and scales between these, and their inverses and products, stay within float32."""
