"""A convolution of images with a packed weight."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fxopt.packed.activation import Activation
from fxopt.packed.layer import PackedLayer
from fxopt.packed.onednn import is_available, operator

if is_available():
    _convolution, _convolution_and_sum = (
        operator("_convolution_pointwise"),
        operator("_convolution_pointwise", "binary"),
    )
    _reorder = operator("_reorder_convolution_weight")


class PackedConv2d(PackedLayer):
    """Compute `activation(conv2d(x) + other)`; see `PackedLayer`.

    `x` is of shape (batch, in channels, height, width), `other` has the shape of the result. The result lies channel by
    channel for each pixel (``torch.channels_last``), as oneDNN works, and an input is brought into that order.

    Args:
        stride, padding, dilation: two numbers each, for height and width.
        groups: of channels.
        keeps_order: whether the result has to lie as that of torch, image by image unless the input is channels last.
    """

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor | None,
        activation: Activation | None = None,
        *,
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        groups: int,
        keeps_order: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(weight, bias, activation, **options)
        self.stride, self.padding, self.dilation = tuple(stride), tuple(padding), tuple(dilation)
        self.groups = groups
        self.keeps_order = keeps_order

    def _layer(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)

    def _takes(self, x: Tensor, other: Tensor | None) -> bool:
        if x.dim() != 4 or x.shape[1] != self.weight.shape[1] * self.groups:
            return False
        if self.keeps_order and not (x.is_contiguous() and self.weight.is_contiguous()):
            return False
        return other is None or (
            type(other) is Tensor
            and other.dtype is x.dtype
            and other.is_cpu
            and other.layout is torch.strided
            and list(other.shape) == self._shape_for(x)
            and not (self.keeps_order and not other.is_contiguous())
        )

    def _shape_for(self, x: Tensor) -> list[int]:
        """Return the shape of the result."""
        sizes = zip(x.shape[2:], self.weight.shape[2:], self.stride, self.padding, self.dilation)
        sides = [(n + 2 * pad - gap * (k - 1) - 1) // step + 1 for n, k, step, pad, gap in sizes]
        return [x.shape[0], self.weight.shape[0], *sides]

    def _by_onednn(self, x: Tensor, other: Tensor | None, weight: Tensor) -> Tensor:
        form = (self.padding, self.stride, self.dilation, self.groups)
        fused = other is None and self.activation is not None and self.activation.keeps_nan
        y: Tensor
        if other is not None:  # behind a sum, oneDNN has no other activation than the relu that hides NaN
            y = _convolution_and_sum(x, other, weight, self.bias, *form, "add", 1.0, None, (), None)
        else:
            last = self.activation.call if fused and self.activation is not None else ("none", (), "")
            y = _convolution(x, weight, self.bias, *form, *last)
        if self.activation is not None and not fused:
            y = self.activation.in_place(y)
        return y.contiguous() if self.keeps_order else y

    def _form(self, x: Tensor) -> Hashable:
        # by the number of threads, too: oneDNN chooses another kernel for each, and repacks in every call for a misfit
        return (
            "conv2d",
            self.padding,
            self.stride,
            self.dilation,
            self.groups,
            tuple(x.shape),
            torch.get_num_threads(),
        )

    def _pack(self, weight: Tensor, x: Tensor) -> Tensor:
        # without the size of the input, the packed weight fits another kernel than the one that runs, ten times slower
        packed: Tensor = _reorder(weight, self.padding, self.stride, self.dilation, self.groups, list(x.shape))
        return packed

    def extra_repr(self) -> str:
        rows, columns, *kernel = self.weight.shape
        parts = [f"{columns * self.groups}, {rows}, kernel_size={tuple(kernel)}, stride={self.stride}"]
        plain = {"padding": (0, 0), "dilation": (1, 1), "groups": 1}
        parts += [f"{name}={value}" for name in plain if (value := getattr(self, name)) != plain[name]]
        parts += [] if self.bias is not None else ["bias=False"]
        parts += ["keeps_order=True"] if self.keeps_order else []
        return ", ".join(parts) + super().extra_repr()
