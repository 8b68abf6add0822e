"""Batch normalization in evaluation mode, and the fold of its scale and shift into a layer beside it.

There it is a fixed scale and shift of each channel, `y * s + t` with `s = gamma / sqrt(var + eps)` and
`t = beta - mean * s` (Ioffe and Szegedy 2015, section 3.1); a missing `gamma` is one, a missing `beta` zero. A linear
layer or convolution with weights `W` and bias `b` is linear in its input and in its weights, so

- behind it, `W` with output channel `o` times `s[o]`, and bias `b * s + t`, do both;
- before it, `W` with input channel `i` times `s[i]`, and bias `b + W t` summed over the kernel's window, do both, as
  long as that window is the same everywhere: no zeros around the input, unless there is no shift.

Scales and shifts are computed in float64, weights in float32 at least, and each is rounded once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import nn
from torch.fx import Node

from fxopt.core import (
    BatchNormLayer,
    Condition,
    Conditions,
    ConvLayer,
    GraphIndex,
    Layer,
    Match,
    Rewriter,
    Unmet,
    dtype_conditions,
    layer_conditions,
    present,
    readers_of,
    remove_layer,
    set_tensors,
)
from fxopt.graph.ownership import values_condition


@dataclass(frozen=True)
class Affine:
    """The fixed scale and shift of each channel: float64, of shape (C,).

    All are equal: as an argument of `_folded`, it follows from the others.
    """

    scale: torch.Tensor = field(compare=False)
    shift: torch.Tensor = field(compare=False)

    @classmethod
    def of(cls, bn: BatchNormLayer, mean: torch.Tensor, variance: torch.Tensor) -> Affine:
        gamma, beta = bn.tensor("weight"), bn.bias
        with torch.no_grad():
            scale = (variance.double() + bn.eps).rsqrt_()
            if gamma is not None:
                scale.mul_(gamma)
            start = torch.zeros_like(scale) if beta is None else beta
            return cls(scale, torch.addcmul(start, mean, scale, value=-1))  # float64, as one of the three is

    @cached_property
    def largest(self) -> float:
        """The largest scale or shift by size; NaN if any of them is."""
        if not self.scale.numel():
            return 0.0
        return torch.linalg.vector_norm(torch.cat((self.scale, self.shift)), torch.inf).item()

    @property
    def range(self) -> str:
        low, high = torch.aminmax(self.scale)
        return f"{low.item():.3g} to {high.item():.3g}"


@dataclass(frozen=True, eq=False)
class BatchNormBesideLayer(Match):
    """A batch normalization, the anchor, and the layer that takes it in."""

    only_read = ("input",)

    input: Node
    """The tensor that is normalized."""
    layer_node: Node
    layer: Layer
    bn: BatchNormLayer
    affine: Affine
    layer_first: bool
    through: tuple[Node, ...] = ()
    """The nodes between the two, which only pass the channels on."""

    @property
    def result(self) -> Node:
        """The node that has the numbers of both together."""
        return self.bn.output if self.layer_first else self.layer.output


Kinds = tuple[type[nn.Module], ...]


def batch_norm_conditions(bn: BatchNormLayer, kinds: Kinds, index: GraphIndex) -> Conditions[tuple[Node, Affine]]:
    """Require that `bn` is a fixed scale and shift; return its input and these."""
    yield bn.training is False or _unmet_mode(bn)
    yield {"running_mean", "running_var"} <= set(bn.held) or _without_statistics(bn)
    yield bn.gives_one_tensor or Unmet(
        f"{bn.name} gives a tuple, of which more than the first item is used", actual=f"{len(bn.node.users)} users"
    )
    x = yield from layer_conditions(bn, kinds, index)
    mean = yield from present(bn.tensor("running_mean"), lambda: _without_statistics(bn))
    variance = yield from present(bn.tensor("running_var"), lambda: _without_statistics(bn))
    yield values_condition(bn.name, mean)
    affine = Affine.of(bn, mean, variance)
    limit = torch.finfo(mean.dtype).max
    yield affine.largest <= limit or Unmet(
        f"the scale or shift of {bn.name} is not a finite {mean.dtype}",
        actual=f"{affine.largest:.3g}",
        needed=f"<= {limit:.3g}",
    )
    return x, affine


def _without_statistics(bn: BatchNormLayer) -> Unmet:
    return Unmet(
        f"{bn.name} takes the statistics of each batch (track_running_stats=False): the batch itself sets the scale",
        actual="none",
        needed="a running mean and variance",
    )


def fold_conditions(
    bn: BatchNormLayer, x: Node, affine: Affine, layer: Layer, kinds: Kinds, index: GraphIndex, *, layer_first: bool
) -> Conditions[BatchNormBesideLayer]:
    """Require that `layer`, right behind or before `bn` as far as the channels go, can do its work on `x` as well."""
    yield from layer_conditions(layer, kinds, index)
    yield from scaling_conditions(bn, affine, layer, layer_first=layer_first)
    return BatchNormBesideLayer(bn.node, x, layer.node, layer, bn, affine, layer_first)


def scaling_conditions(bn: BatchNormLayer, affine: Affine, layer: Layer, *, layer_first: bool) -> Conditions[None]:
    """Require that the weights of `layer` can do the work of `bn`, whoever else may read them."""
    yield from dtype_conditions(layer, bn)
    if not layer_first and isinstance(layer, ConvLayer):
        still = not (layer.pads_zeros or layer.transposed) or not bool(affine.shift.any())
        where = "does not cover its edges evenly (it is transposed)" if layer.transposed else "pads with zeros"
        yield still or Unmet(
            f"{layer.name} {where}, so at the edges the shift of {bn.name} would be missing",
            actual=f"a shift of up to {affine.shift.abs().max().item():.3g}",
            needed="a padding of 0, or a shift of 0",
        )
    largest, limit = affine.largest, torch.finfo(layer.weight.dtype).max
    near = largest * 2.0**20 > limit  # only then is it worth computing them to see
    yield (
        not near
        or _finite(_folded(*_sources(layer, bn, affine, layer_first)))
        or Unmet(
            f"the weights of {layer.name}, scaled, are too large for {layer.weight.dtype}",
            actual=f"scales and shifts of up to {largest:.3g}",
            needed=f"products <= {limit:.3g}",
        )
    )


def users_condition(node: Node, wanted: Node, why: str) -> Condition:
    """Require that `wanted` alone reads the numbers of `node`."""
    others = [user.name for user in readers_of(node) if user is not wanted]
    return not others or Unmet(
        f"{node.name} has other users ({', '.join(others)}), which need it {why}",
        actual=f"{len(others) + 1} users",
        needed=f"{wanted.name} alone",
    )


def fold(match: BatchNormBesideLayer, rewriter: Rewriter, stand_in: Node) -> None:
    """Let the layer do the work of the batch normalization, and let `stand_in` be read in its place."""
    new = rewriter.computed(_folded, *_sources(match.layer, match.bn, match.affine, match.layer_first))
    set_tensors(match.layer, rewriter, **dict(zip(("weight", "bias"), new)))
    remove_layer(match.bn, rewriter, stand_in)


def _statistics(bn: BatchNormLayer) -> tuple[torch.Tensor | None, ...]:
    return tuple(map(bn.tensor, ("running_mean", "running_var", "weight", "bias")))


def _sources(layer: Layer, bn: BatchNormLayer, affine: Affine, layer_first: bool) -> tuple[Any, ...]:
    """Return the arguments of `_folded`, and the sources that `affine` follows from."""
    groups, transposed = (layer.groups, layer.transposed) if isinstance(layer, ConvLayer) else (1, False)
    trains = any(tensor is not None and tensor.requires_grad for tensor in (layer.bias, bn.bias))
    how = (groups, layer_first, layer_first is not transposed, trains)
    return layer.weight, layer.bias, affine, *how, bn.eps, *_statistics(bn)


def _folded(
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    affine: Affine,
    groups: int,
    layer_first: bool,
    of_rows: bool,
    trains: bool,
    *_: Any,
) -> tuple[torch.Tensor, ...]:
    """Return the weight and bias with which a layer does the batch normalization behind or before it as well.

    Return only the weight if the bias stays as it is.

    Args:
        of_rows: whether the channels that are normalized are those of dimension 0 of the weight. A weight is (O, I), of
            a convolution (O, I / groups, ...), of a transposed one (I, O / groups, ...).
        trains: whether the new bias does.
    """
    with torch.no_grad():
        new_weight = _scaled(weight, _spread(affine.scale, weight, groups, of_rows))
        new_weight.requires_grad_(weight.requires_grad)
        if layer_first:
            new_bias = affine.shift if bias is None else affine.shift + bias * affine.scale
        elif bool(affine.shift.any()):
            new_bias = (weight * _spread(affine.shift, weight, groups, of_rows)).flatten(1).sum(1)
            new_bias = new_bias if bias is None else new_bias + bias
        else:
            return (new_weight,)
        return new_weight, new_bias.to(weight.dtype, copy=True).requires_grad_(trains)


def _spread(values: torch.Tensor, weight: torch.Tensor, groups: int, of_rows: bool) -> torch.Tensor:
    """Return one value for each channel, in the shape that multiplies the weight."""
    ones = (1,) * (weight.dim() - 2)
    if of_rows:
        return values.reshape(-1, 1, *ones)
    rows, columns = weight.shape[:2]
    if groups == 1:
        return values.reshape(1, columns, *ones)
    return values.reshape(groups, 1, columns).expand(-1, rows // groups, -1).reshape(rows, columns, *ones)


def _scaled(weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Return `weight * scale` in the dtype of `weight`, computed in float32 at least and rounded once."""
    if weight.dtype in (torch.float32, torch.float64):
        return weight * scale.to(weight.dtype)
    return (weight.float() * scale.float()).to(weight.dtype)


def _finite(tensors: tuple[torch.Tensor, ...]) -> bool:
    return all(bool(torch.isfinite(tensor).all()) for tensor in tensors)


def _unmet_mode(bn: BatchNormLayer) -> Unmet:
    mode = "in training mode" if bn.training is True else f"in a mode that {bn.training} decides"
    return Unmet(
        f"{bn.name} is {mode}: the batch itself sets the scale and shift",
        remedy="model.eval()",
        actual="training" if bn.training is True else str(bn.training),
        needed="evaluation",
    )
