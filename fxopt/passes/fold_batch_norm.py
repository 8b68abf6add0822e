"""Batch normalization beside any linear layer or convolution is folded into that layer's weights."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import torch
from torch import nn
from torch.fx import Node
from torch.nn.modules.batchnorm import _BatchNorm

from fxopt.core import (
    BATCH_NORM_CALLS,
    NEEDS_SHAPES,
    BatchNormLayer,
    Conditions,
    ConvLayer,
    GraphIndex,
    Layer,
    LinearLayer,
    Match,
    Memory,
    Miss,
    Pass,
    Rewriter,
    Unmet,
    copy_for,
    decide,
    info_of,
    layer_of,
    memory_needed,
    present,
    rank_condition,
    readers_of,
    unwritten_condition,
)
from fxopt.passes.batch_norm import BatchNormBesideLayer, batch_norm_conditions, fold, fold_conditions, users_condition
from fxopt.passes.channels import place_after, source, turns

_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d,
           nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)  # fmt: skip


class FoldBatchNorm(Pass[BatchNormBesideLayer]):
    """Replace `bn(f(x))`, or `f(bn(x))`, with one `f`, for any linear layer or convolution `f`, in evaluation mode.

    There, batch normalization is a fixed scale and shift of each channel, `y * s + t` with `s = gamma / sqrt(var +
    eps)` and `t = beta - mean * s`. Behind `f`, the weights of output channel `o` times `s[o]`, and the bias `b * s +
    t`, do both. Before `f`, the weights of input channel `i` times `s[i]`, and the bias with the weights times `t`
    added, do both; but zeros around the input of a convolution would stay unshifted, so with them there must be no
    shift. Convolutions may have 1 to 3 dimensions and be transposed. Between the two there may be operations that pass
    the channels on: identity and dropout, and reshapes, flattenings and transpositions that keep channels apart, as in
    LeViT's `bn(linear(x).flatten(0, 1))`.

    >>> import torch, fxopt
    >>> model = torch.nn.Sequential(torch.nn.ConvTranspose1d(3, 8, 3), torch.nn.Dropout(), torch.nn.BatchNorm1d(8))
    >>> gm = fxopt.capture(model.eval(), (torch.rand(2, 3, 5),))
    >>> [node.name for node in fxopt.FoldBatchNorm()(gm).graph.nodes]
    ['input_1', '_0', '_1', 'output']
    >>> [node.name for node in fxopt.FoldBatchNorm()(gm, reverse=True).graph.nodes]
    ['input_1', '_0', '_1', '_2', 'output']
    """

    label = "Fold any batch norm"
    needs = "a batch normalization beside a linear layer or a convolution"

    targets = (_BatchNorm, *BATCH_NORM_CALLS)

    def match(self, node: Node, index: GraphIndex) -> BatchNormBesideLayer | Miss | None:
        bn = layer_of(node, index)
        if not isinstance(bn, BatchNormLayer):
            return None
        tried = [decide(node, conditions) for conditions in (_behind(bn, index), _before(bn, index))]
        matches = [found for found in tried if isinstance(found, Match)]
        if matches:
            return matches[0]
        return max((found for found in tried if isinstance(found, Miss)), key=lambda miss: miss.met)

    def explain(self, match: BatchNormBesideLayer) -> str:
        where, side = ("behind", "output") if match.layer_first else ("before", "input")
        through = f" (through {', '.join(node.name for node in match.through)})" if match.through else ""
        return (
            f"{match.anchor.name} only scales and shifts {len(match.affine.scale)} channels (by {match.affine.range}) "
            f"{where} {match.layer_node.name}{through}, which its weights by {side} channel and its bias can do"
        )

    def results(self, match: BatchNormBesideLayer) -> tuple[Node, ...]:
        return (match.result,)

    def rewrite(self, match: BatchNormBesideLayer, rewriter: Rewriter) -> None:
        bn, stand_in = match.bn, match.input
        # the result of batch norm is contiguous; a view further on may rely on it
        relied_on = any(map(turns, match.through)) if match.layer_first else bool(match.through)
        needed = memory_needed(bn.output, rewriter.index, turned=True) if relied_on else Memory.ANY
        if needed is not Memory.ANY:
            stand_in = _copied(match, needed, rewriter)
        fold(match, rewriter, stand_in)


def _copied(match: BatchNormBesideLayer, needed: Memory, rewriter: Rewriter) -> Node:
    """Return the normalized tensor, in memory as its consumers need it."""
    bn = match.bn
    call = copy_for(match.input, needed, operators=isinstance(bn.node.target, torch._ops.OpOverload))
    name = f"{bn.node.name}_contiguous"
    return rewriter.insert(*call, name=name, info=info_of(bn.output), made_from=(bn.node,))


def _behind(bn: BatchNormLayer, index: GraphIndex) -> Conditions[BatchNormBesideLayer]:
    """Require that `bn` can be folded into a layer whose output it normalizes."""
    normalized, affine = yield from batch_norm_conditions(bn, _BATCH_NORMS, index)
    way = [normalized]
    while _foldable(way[0], index) is None and (x := source(way[0], index)) is not None:
        way.insert(0, x)
    layer = yield from present(
        _foldable(way[0], index),
        lambda: Unmet(
            f"its input comes from {way[0].name}, not from a linear layer or convolution",
            actual=way[0].name,
            needed="a linear layer or convolution",
        ),
    )
    for node, user in pairwise([*way, bn.node]):
        yield users_condition(node, user, "as it is")
    match = yield from fold_conditions(bn, normalized, affine, layer, _LAYERS, index, layer_first=True)
    sure = len(way) == 1 and isinstance(layer, ConvLayer) and _RANKS.get(type(bn.module)) == layer.dimensions + 2
    if not sure:
        yield from _channel_conditions(layer, way, layer_first=True)
    return replace(match, through=tuple(way[1:]))


def _before(bn: BatchNormLayer, index: GraphIndex) -> Conditions[BatchNormBesideLayer]:
    """Require that `bn` can be folded into a layer that reads its result."""
    normalized, affine = yield from batch_norm_conditions(bn, _BATCH_NORMS, index)
    way, user = [bn.output], _reader(bn.output)
    while user is not None and _foldable(user, index) is None and source(user, index) is way[-1]:
        way.append(user)
        user = _reader(user)
    behind = _foldable(user, index) if user is not None else None
    layer = yield from present(
        behind if behind is not None and behind.input is way[-1] else None,
        lambda: Unmet(
            f"its result, {way[-1].name}, is not read by a linear layer or convolution alone",
            actual=", ".join(user.name for user in way[-1].users),
            needed="a linear layer or convolution",
        ),
    )
    for node, reader in pairwise([*way, layer.node]):
        yield users_condition(node, reader, "as it is")
    match = yield from fold_conditions(bn, normalized, affine, layer, _LAYERS, index, layer_first=False)
    yield from _channel_conditions(layer, way, layer_first=False)
    yield unwritten_condition(normalized, bn.node, layer.node, index)
    return replace(match, through=tuple(way[1:]))


_RANKS: dict[type, int] = {nn.BatchNorm2d: 4, nn.BatchNorm3d: 5}
"""The number of dimensions that a batch normalization insists on itself."""


def _foldable(node: Node, index: GraphIndex) -> Layer | None:
    layer = layer_of(node, index)
    return layer if isinstance(layer, LinearLayer | ConvLayer) else None


def _reader(node: Node) -> Node | None:
    """Return the one node that reads the numbers of `node`, if there is exactly one."""
    readers = readers_of(node)
    return readers[0] if len(readers) == 1 else None


def _channel_conditions(layer: Layer, way: list[Node], *, layer_first: bool) -> Conditions[None]:
    """Require that the channels of dimension 1, which are normalized, are those that the layer gives or reads.

    Args:
        way: the tensors from the result of the first to the input of the second.
    """
    at_layer = way[0] if layer_first else way[-1]
    if isinstance(layer, ConvLayer):
        place = 1
        yield rank_condition(at_layer, layer.dimensions + 2, "only of a batch of inputs are channels dimension 1")
    else:
        info = yield from present(
            info_of(at_layer),
            lambda: Unmet(
                f"the shape of {at_layer.name} is unknown: batch norm scales dimension 1, Linear works on the last",
                remedy=NEEDS_SHAPES,
                actual="unknown",
                needed="a shape",
            ),
        )
        place = len(info.shape) - 1
    current, end = (place, 1) if layer_first else (1, place)
    for x, node in pairwise(way):
        current = yield from _followed(x, node, current)
    yield current == end or Unmet(
        f"batch norm scales dimension 1, which is not where {layer.name} has its channels",
        actual=f"dimension {current} of {_shape(way[-1])}",
        needed=f"dimension {end}",
    )


def _followed(x: Node, node: Node, place: int) -> Conditions[int]:
    """Require that it is known where dimension `place` of `x` lies in `node`, and return that."""
    return present(
        place_after(node, x, place),
        lambda: Unmet(
            f"{node.name} may mix the channels of {x.name} with something else",
            actual=f"{_shape(x)} to {_shape(node)}",
            needed="channels kept apart",
        ),
    )


def _shape(node: Node) -> str:
    info = info_of(node)
    return str(info) if info is not None else "an unknown shape"
