"""Batch normalization after or before a linear layer is folded into the linear layer's weights."""

from torch import nn
from torch.fx import Node

from fxopt.core import (
    BATCH_NORM_CALLS,
    BatchNormLayer,
    Conditions,
    GraphIndex,
    Layer,
    LinearLayer,
    Match,
    Miss,
    Pass,
    Rewriter,
    Unmet,
    decide,
    info_of,
    layer_of,
    rank_condition,
    readers_of,
    unwritten_condition,
)
from fxopt.passes.batch_norm import (
    Affine,
    BatchNormBesideLayer,
    batch_norm_conditions,
    fold,
    fold_conditions,
    users_condition,
)


class FuseBatchNorm1dInLinear(Pass[BatchNormBesideLayer]):
    """Replace `bn(linear(x))`, or `linear(bn(x))`, with one linear layer, in evaluation mode.

    There, batch normalization is a fixed scale and shift of each feature, `y * s + t` with
    `s = gamma / sqrt(var + eps)` and `t = beta - mean * s`. So after a linear layer, the weights `W` become `diag(s) W`
    and the bias `b * s + t`; before one, they become `W diag(s)` and `b + W t`. Both hold for inputs of shape (N, C)
    only: of (N, C, L), batch normalization scales dimension 1, and a linear layer works on dimension 2.

    >>> import torch, fxopt
    >>> model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.BatchNorm1d(8)).eval()
    >>> gm = fxopt.capture(model, (torch.rand(2, 3),))
    >>> [node.name for node in fxopt.FuseBatchNorm1dInLinear()(gm).graph.nodes]
    ['input_1', '_0', 'output']
    >>> [node.name for node in fxopt.FuseBatchNorm1dInLinear()(gm, reverse=True).graph.nodes]
    ['input_1', '_0', '_1', 'output']
    """

    label = "Fold BatchNorm1d"
    needs = "a BatchNorm1d beside a Linear"

    targets = (nn.BatchNorm1d, *BATCH_NORM_CALLS)

    def match(self, node: Node, index: GraphIndex) -> BatchNormBesideLayer | Miss | None:
        bn = layer_of(node, index)
        if not isinstance(bn, BatchNormLayer):
            return None
        info = info_of(bn.output)
        if bn.module is None and info is not None and len(info.shape) > 3:
            return None  # not of features
        return decide(node, self._conditions(bn, index))

    def _conditions(self, bn: BatchNormLayer, index: GraphIndex) -> Conditions[BatchNormBesideLayer]:
        x, affine = yield from batch_norm_conditions(bn, (nn.BatchNorm1d,), index)
        linears = _neighbors(bn, index)
        yield bool(linears) or Unmet(
            f"neither its input {x.name} nor a user is a Linear", actual="no Linear", needed="a Linear beside it"
        )
        why = "batch norm scales dimension 1, Linear works on the last, and only of (N, C) are they the same"
        yield rank_condition(x, 2, why)
        tried = [decide(bn.node, _neighbor_conditions(bn, x, affine, linear, index)) for linear in linears]
        match = next((found for found in tried if isinstance(found, Match)), None)
        return match or (yield from _neighbor_conditions(bn, x, affine, linears[0], index))

    def explain(self, match: BatchNormBesideLayer) -> str:
        what = "rows of the weight" if match.layer_first else "columns of the weight"
        return (
            f"{match.anchor.name} only scales and shifts {len(match.affine.scale)} features (by {match.affine.range}), "
            f"which the {what} and the bias of {match.layer_node.name} can do themselves"
        )

    def results(self, match: BatchNormBesideLayer) -> tuple[Node, ...]:
        return (match.result,)

    def rewrite(self, match: BatchNormBesideLayer, rewriter: Rewriter) -> None:
        fold(match, rewriter, stand_in=match.input)


def _neighbors(bn: BatchNormLayer, index: GraphIndex) -> list[Layer]:
    """Return the linear layers beside `bn`: the one whose output it reads first, then one that reads it."""
    near = (bn.input, next(iter(readers_of(bn.output)), None))
    found = [layer_of(node, index) for node in near if node is not None]
    return [
        layer
        for layer in found
        if isinstance(layer, LinearLayer) and (layer.node is bn.input or layer.input is bn.output)
    ]


def _neighbor_conditions(
    bn: BatchNormLayer, x: Node, affine: Affine, linear: Layer, index: GraphIndex
) -> Conditions[BatchNormBesideLayer]:
    linear_first = linear.node is x
    first, second = (linear.output, bn.node) if linear_first else (bn.output, linear.node)
    yield users_condition(first, second, "as it is")
    match = yield from fold_conditions(bn, x, affine, linear, (nn.Linear,), index, layer_first=linear_first)
    yield linear_first or unwritten_condition(x, bn.node, linear.node, index)
    return match
