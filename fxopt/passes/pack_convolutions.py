"""Convolutions read a packed copy of their weights, and compute the sum and the activation behind them as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.fx import Node
from torch.nn.modules.conv import _ConvNd

from fxopt.core import (
    CONV_CALLS,
    Conditions,
    ConvLayer,
    GraphIndex,
    Memory,
    Miss,
    Pass,
    Rewriter,
    Unmet,
    decide,
    info_of,
    layer_of,
    memory_needed,
    present,
    unwritten_condition,
)
from fxopt.graph.guards import unaltered_conditions
from fxopt.graph.layer import argument_names
from fxopt.packed import PackedConv2d
from fxopt.passes.packing import LayerToPack, explain_packing, packing_conditions, put_packed, with_calls_behind


@dataclass(frozen=True)
class Geometry:
    """The steps of the kernel of a convolution over an image, for height and width."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int


@dataclass(frozen=True, eq=False, kw_only=True)
class ConvolutionToPack(LayerToPack):
    """A convolution of images, with the calls around it that its packed form computes as well."""

    geometry: Geometry


class PackConvolutions(Pass[ConvolutionToPack]):
    """Replace `act(conv(x) + y)` of images with one call that reads the kernel packed, on a CPU without gradients.

    oneDNN, the library of Intel that torch brings along, computes a convolution as products of small blocks of
    channels. Here the kernel lies block by block in a packed copy, made once for each size of the input, and images lie
    channel by channel for each pixel (`torch.channels_last`), so both are read in one go. A kernel of one pixel, in
    steps of one, is a product of matrices with a row for each pixel, which takes less time a call. A residual `y` is
    added while a block of the result is still in the registers, and so is an activation that keeps NaN; `relu`, where
    oneDNN gives 0 for NaN, follows in place, unless the image is so much smaller than the result that it pays to prove
    first that there is no NaN. Zeros that a call puts around the image before are left to the kernel, which saves a
    copy. If a side has more of them than the other, they are left to it where each channel has a kernel of its own,
    which gets as many zeros more: `sum_k w[k] x[i + k - l] = sum_k w'[k] x[i + k - r]`, with `r - l` zeros before the
    numbers of `w`. An infinity in the image, of which these would make NaN, is seen at run time, and computed as
    before.

    It may pay in nets of convolutions whose batch norms are folded (`docs/speed.md` has figures). It costs the memory
    of the packed copies. The same products are summed in another order, so results differ by rounding, about 1e-6 of
    the largest. Where a reader of the result relies on its order in memory, the result is copied into that of before.

    It is for inference: call the graph module under `torch.inference_mode()` or `torch.no_grad()`. Where a gradient
    is asked for, or a dtype, device or compiler that oneDNN cannot serve, the packed layer computes as before.

    >>> import torch, fxopt
    >>> model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.SiLU(), torch.nn.AvgPool2d(2)).eval()
    >>> gm = fxopt.capture(model, (torch.rand(2, 3, 8, 8),))
    >>> [node.name for node in fxopt.PackConvolutions()(gm).graph.nodes]
    ['input_1', '_0', '_2', 'output']
    >>> [node.name for node in fxopt.PackConvolutions()(gm, reverse=True).graph.nodes]
    ['input_1', '_0', '_1', '_2', 'output']
    """

    label = "Pack convolutions"
    needs = "a convolution of images on a CPU"

    targets = (_ConvNd, *CONV_CALLS)

    def match(self, node: Node, index: GraphIndex) -> ConvolutionToPack | Miss | None:
        layer = layer_of(node, index)
        return decide(node, self._conditions(layer, index)) if isinstance(layer, ConvLayer) else None

    def _conditions(self, layer: ConvLayer, index: GraphIndex) -> Conditions[ConvolutionToPack]:
        yield not layer.transposed or Unmet(
            f"{layer.name} is a transposed convolution, and oneDNN packs plain ones",
            actual="transposed",
            needed="a convolution",
        )
        weight = layer.tensor("weight")
        yield (
            weight is None
            or weight.dim() == 4
            or Unmet(
                f"{layer.name} has a weight of {weight.dim()} dimensions, and oneDNN packs those of images, with 4",
                actual=f"a weight of {weight.dim()} dimensions",
                needed="4 dimensions",
            )
        )
        yield from packing_conditions(layer, nn.Conv2d, index)
        mode = getattr(layer.module, "padding_mode", "zeros")
        yield mode == "zeros" or Unmet(
            f"{layer.name} pads by {mode}, which is an operation of its own", actual=mode, needed="zeros"
        )
        geometry = yield from present(
            geometry_of(layer),
            lambda: Unmet(
                f"the stride, padding or dilation of {layer.name} is computed, or differs from side to side",
                actual="computed or uneven",
                needed="two numbers each",
            ),
        )
        found = _with_padding(with_calls_behind(layer, index, activated_sum=True), geometry, index)
        return ConvolutionToPack(**vars(found), geometry=geometry)

    def explain(self, match: ConvolutionToPack) -> str:
        return explain_packing(match)

    def results(self, match: ConvolutionToPack) -> tuple[Node, ...]:
        return (match.result,)

    def rewrite(self, match: ConvolutionToPack, rewriter: Rewriter) -> None:
        layer, geometry = match.layer, match.geometry
        packed = PackedConv2d(
            layer.weight,
            layer.bias,
            match.activation,
            **(vars(geometry) | _padding_of(geometry, match.zeros)),
            keeps_order=memory_needed(match.result, rewriter.index, turned=True) is not Memory.ANY,
            other_first=match.other_first,
            training=layer.module is not None and layer.module.training,
        )
        put_packed(match, packed, rewriter)


def _padding_of(geometry: Geometry, zeros: tuple[int, int, int, int]) -> dict[str, tuple[int, ...]]:
    """Return the padding of the kernel, and the zeros beside it, where a side has more than the other."""
    left, right, top, bottom = zeros
    if (left, top) != (right, bottom):
        return {"zeros": zeros}
    return {"padding": (geometry.padding[0] + top, geometry.padding[1] + left)}


def _with_padding(match: LayerToPack, geometry: Geometry, index: GraphIndex) -> LayerToPack:
    """Return the match with the call before it that puts zeros around the image, if the kernel can do that."""
    padded, layer = match.layer.input, match.layer
    if padded is None or list(padded.users) != [layer.node] or padded is match.other:
        return match
    x, sides = _zeros_around(padded, index)
    info = info_of(x) if x is not None else None
    if x is None or info is None or len(info.shape) != 4:
        return match
    numbers = [side for side in sides if type(side) is int and side >= 0]
    if not len(numbers) == len(sides) == 4:
        return match
    left, right, top, bottom = numbers
    own_kernels = layer.weight.shape[1] == 1 and geometry.groups > 1 and geometry.dilation == (1, 1)
    unwritten = unwritten_condition(x, padded, layer.node, index) is True
    if not (own_kernels or (left, top) == (right, bottom)) or not unwritten or index.autocast_around(padded):
        return match
    return replace(match, padded=padded, source=x, zeros=(left, right, top, bottom))


def _zeros_around(node: Node, index: GraphIndex) -> tuple[Node | None, Sequence[Any]]:
    """Return the tensor that a call puts zeros around, and how many on each side; None for another call."""
    module = index.module_of(node)
    if type(module) is nn.ZeroPad2d and len(node.args) == 1 and isinstance(node.args[0], Node):
        if decide(node, unaltered_conditions(module, str(node.target), nn.ZeroPad2d)) is None:
            return node.args[0], module.padding
        return None, ()
    if node.target not in _PADS:
        return None, ()
    given = {**dict(zip(("input", "pad", "mode", "value"), node.args)), **node.kwargs}
    x, sides = given.get("input"), given.get("pad")
    is_constant = given.get("mode", "constant") == "constant" and given.get("value") in (None, 0)
    if not isinstance(x, Node) or not isinstance(sides, list | tuple) or not is_constant:
        return None, ()
    return x, sides


_PADS = (F.pad, torch._C._nn.pad)


def geometry_of(layer: ConvLayer) -> Geometry | None:
    """Return the geometry of a convolution of images; None where a number is computed, or a padding uneven."""
    kernel = tuple(layer.weight.shape[2:])
    if layer.module is not None:
        given: dict[str, Any] = vars(layer.module)
    else:
        given = {**dict(zip(argument_names(layer.node.target), layer.node.args)), **layer.node.kwargs}
    stride, dilation = _pair(given.get("stride", 1)), _pair(given.get("dilation", 1))
    if stride is None or dilation is None or not isinstance(layer.groups, int):
        return None
    padding = given.get("padding", 0)
    if padding == "same":
        total = [gap * (size - 1) for gap, size in zip(dilation, kernel)]
        padding = None if any(one % 2 for one in total) else [one // 2 for one in total]
    sides = _pair(0 if padding == "valid" else padding)
    return None if sides is None else Geometry(stride, sides, dilation, layer.groups)


def _pair(value: Any) -> tuple[int, ...] | None:
    """Return a number, or one or two, as two."""
    values: Sequence[Any] = value if isinstance(value, list | tuple) else (value,)
    if not all(type(one) is int for one in values) or len(values) not in (1, 2):
        return None
    return (values[0], values[-1])
