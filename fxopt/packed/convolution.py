"""A convolution of images with a packed weight."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fxopt.packed.activation import Activation
from fxopt.packed.bounds import LARGEST, is_bounded
from fxopt.packed.layer import PackedLayer, Step, UnboundedError
from fxopt.packed.onednn import is_available, operator
from fxopt.packed.weights import PackedWeight

if is_available():
    _convolution, _convolution_and_sum = (
        operator("_convolution_pointwise"),
        operator("_convolution_pointwise", "binary"),
    )
    _reorder = operator("_reorder_convolution_weight")
    _linear, _linear_and_sum = operator("_linear_pointwise"), operator("_linear_pointwise", "binary")
    _reorder_linear = operator("_reorder_linear_weight")


_LARGE, _SMALLER = 2**16, 2
"""Numbers of a result, and the factor by which the image is smaller (but for its edges), from which a proof about the
image pays."""


_FINITE = 1e37
"""A bound of sums that leaves room for their rounding: float32 ends at 3.4e38."""


class PackedConv2d(PackedLayer):
    """Compute `activation(conv2d(x) + other)`; see `PackedLayer`.

    `x` is of shape (batch, in channels, height, width), `other` has the shape of the result. The result lies channel by
    channel for each pixel (``torch.channels_last``), as oneDNN works, and an input is brought into that order. A kernel
    of one pixel, in steps of one, is a product of matrices, one row for each pixel, and computed as such: a call takes
    less time, and one packed weight is for images of all sizes.

    Args:
        stride, padding, dilation: two numbers each, for height and width.
        groups: of channels.
        zeros: columns at the left and at the right, rows at the top and at the bottom, put around the image before.
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
        zeros: Sequence[int] = (0, 0, 0, 0),
        keeps_order: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(weight, bias, activation, **options)
        self.stride, self.padding, self.dilation = tuple(stride), tuple(padding), tuple(dilation)
        self.groups, self.zeros = groups, tuple(zeros)
        self.keeps_order = keeps_order
        rows, columns, *kernel = weight.shape
        self._is_product = {*kernel, *self.stride, groups} == {1} and not any((*self.padding, *self.zeros))
        self._one_row = self._one_row if self._is_product else 0
        self._growth = rows / max(columns * groups * math.prod(self.stride), 1)
        left, right, top, bottom = self.zeros
        # the smaller side of `zeros` is made up for by the kernel: one that has `d` more zeros at its beginning begins
        # `d` places earlier; the sum of w[k] x[i + k - left] is that of w'[k] x[i + k - right], with `right - left`
        # zeros before the numbers of w
        even = self.padding[0] + max(top, bottom), self.padding[1] + max(left, right)
        self._geometry = (even, self.stride, self.dilation, groups)

    def _layer(self, x: Tensor) -> Tensor:
        x = F.pad(x, self.zeros) if any(self.zeros) else x
        return F.conv2d(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)

    def _row_by_torch(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return F.linear(x.flatten(1), weight.flatten(1), bias)[:, :, None, None]

    def _takes(self, x: Tensor, weight: Tensor, other: Tensor | None) -> bool:
        if x.dim() != 4 or x.shape[1] != weight.shape[1] * self.groups:
            return False
        if self.keeps_order and not (_lies_image_by_image(x) and _lies_image_by_image(weight)):
            return False
        if any(self.zeros) and not is_bounded(x):
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
        left, right, top, bottom = self.zeros
        image = x.shape[2] + top + bottom, x.shape[3] + left + right
        sizes = zip(image, self.weight.shape[2:], self.stride, self.padding, self.dilation)
        sides = [(n + 2 * pad - gap * (k - 1) - 1) // step + 1 for n, k, step, pad, gap in sizes]
        return [x.shape[0], self.weight.shape[0], *sides]

    def _by_onednn(self, x: Tensor, other: Tensor | None, bias: Tensor | None, packed: PackedWeight) -> Tensor:
        # behind a sum, oneDNN has no other activation than the relu that hides NaN
        fused = other is None and self.activation is not None and self._may_fuse(self.activation, x, bias, packed)
        last = self.activation.call if fused and self.activation is not None else ("none", (), "")
        y = (self._product if self._is_product else self._convolution)(x, other, packed.tensor, bias, last)
        if self.activation is not None and not fused:
            y = self.activation.in_place(y)
        return _image_by_image(y) if self.keeps_order else y

    def _step(
        self, x: Tensor, other: Tensor | None, bias: Tensor | None, packed: PackedWeight, bounds: tuple[float, float]
    ) -> Step:
        act, weight, keeps_order = self.activation, packed.tensor, self.keeps_order
        hides = act is not None and not act.keeps_nan
        fuses = act is not None and other is None
        result = self._bound(*bounds)
        if fuses and hides and x.dtype is torch.float32:
            proven = self._bound(LARGEST, 0.0)
            proves_before = result == math.inf and proven < math.inf and self._pays_to_prove(x)
            result = proven if proves_before else result
        else:
            proves_before = False
        fuses = fuses and (not hides or result < math.inf)
        # a kernel with zeros reaches every number that one without does: what it makes NaN is seen in the result
        proves_after = any(self.zeros) and bounds[0] == math.inf and not proves_before
        last = act.call if act is not None and fuses else ("none", (), "")
        after = act.in_place if act is not None and not fuses else None
        compute = self._product if self._is_product else self._convolution

        def step(x: Tensor, other: Tensor | None = None) -> Tensor:
            if proves_before and not is_bounded(x):
                raise UnboundedError
            y = compute(x, other, weight, bias, last)
            if proves_after and not math.isfinite(float(y.sum())):
                raise UnboundedError
            if after is not None:
                y = after(y)
            return _image_by_image(y) if keeps_order else y

        return Step(step, result if act is None or result == math.inf else act.bound(result))

    def _bound(self, bound: float, other: float) -> float:
        """Return a bound of the sums of products and `other`, which oneDNN takes in any order; inf if there is none."""
        if self.weight.dtype is not torch.float32:
            return math.inf
        sums = float(self.weight.detach().abs().flatten(1).sum(1).max())
        bias = 0.0 if self.bias is None else float(self.bias.detach().abs().max())
        found = bound * sums + bias + other
        return found if found <= _FINITE else math.inf

    def _convolution(
        self, x: Tensor, other: Tensor | None, weight: Tensor, bias: Tensor | None, last: tuple[Any, ...]
    ) -> Tensor:
        y: Tensor
        if other is not None:
            y = _convolution_and_sum(x, other, weight, bias, *self._geometry, "add", 1.0, None, (), None)
        else:
            y = _convolution(x, weight, bias, *self._geometry, *last)
        return y

    def _product(
        self, x: Tensor, other: Tensor | None, weight: Tensor, bias: Tensor | None, last: tuple[Any, ...]
    ) -> Tensor:
        rows = x.permute(0, 2, 3, 1).contiguous()
        y: Tensor
        if other is not None:
            y = _linear_and_sum(rows, other.permute(0, 2, 3, 1).contiguous(), weight, bias, "add")
        else:
            y = _linear(rows, weight, bias, *last)
        return y.permute(0, 3, 1, 2)

    def _may_fuse(self, activation: Activation, x: Tensor, bias: Tensor | None, packed: PackedWeight) -> bool:
        """Check that the activation may be computed within the convolution: its input has no NaN that it would hide.

        The image is read for that, so it is worth it only where the result is large and the image is smaller.
        """
        if activation.keeps_nan:
            return True
        if not self._pays_to_prove(x) or x.dtype is not torch.float32:
            return False
        return packed.is_bounded and is_bounded(x) and (bias is None or is_bounded(bias))

    def _pays_to_prove(self, x: Tensor) -> bool:
        return self._growth >= _SMALLER and x.numel() * self._growth >= _LARGE

    @property
    def _form(self) -> tuple[Hashable, ...]:
        return ("product",) if self._is_product else ("conv2d", self.zeros, self._geometry)

    def _size(self, x: Tensor) -> Hashable:
        # with the number of threads: oneDNN chooses another kernel for each, and repacks in every call for a misfit
        return None if self._is_product else (x.shape, torch.get_num_threads())

    def _pack(self, weight: Tensor, x: Tensor) -> Tensor:
        if self._is_product:
            product: Tensor = _reorder_linear(weight.flatten(1).contiguous(), None)
            return product
        # without the size of the input, the packed weight fits another kernel than the one that runs, ten times slower
        left, right, top, bottom = self.zeros
        sides = (max(right - left, 0), max(left - right, 0), max(bottom - top, 0), max(top - bottom, 0))
        weight = F.pad(weight, sides) if any(sides) else weight
        packed: Tensor = _reorder(weight, *self._geometry, list(x.shape))
        return packed

    def extra_repr(self) -> str:
        rows, columns, *kernel = self.weight.shape
        parts = [f"{columns * self.groups}, {rows}, kernel_size={tuple(kernel)}, stride={self.stride}"]
        plain = {"padding": (0, 0), "dilation": (1, 1), "groups": 1}
        parts += [f"{name}={value}" for name in plain if (value := getattr(self, name)) != plain[name]]
        parts += [f"zeros={self.zeros}"] if any(self.zeros) else []
        parts += [] if self.bias is not None else ["bias=False"]
        parts += ["keeps_order=True"] if self.keeps_order else []
        return ", ".join(parts) + super().extra_repr()


def _lies_image_by_image(x: Tensor) -> bool:
    """Check that torch takes `x`, with 4 dimensions, to lie image by image, and not channel by channel for each pixel.

    Of one channel or pixel, both orders are one, and torch goes by the strides.
    """
    height, width = x.shape[2:]
    return x.is_contiguous() and x.stride()[1:] == (height * width, width, 1)


def _image_by_image(y: Tensor) -> Tensor:
    """Return `y` so that `_lies_image_by_image`."""
    return y.flatten().view(y.shape) if y.is_contiguous() else y.contiguous()
