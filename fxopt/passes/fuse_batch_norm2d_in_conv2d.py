"""Batch normalization after a convolution is folded into the convolution's weights."""

from torch import nn
from torch.fx import Node

from fxopt.core import (
    BATCH_NORM_CALLS,
    BatchNormLayer,
    Conditions,
    ConvLayer,
    GraphIndex,
    Miss,
    Pass,
    Rewriter,
    Unmet,
    decide,
    info_of,
    layer_of,
    of_type,
    rank_condition,
    target_name,
)
from fxopt.passes.batch_norm import (
    BatchNormBesideLayer,
    batch_norm_conditions,
    fold,
    fold_conditions,
    users_condition,
)


class FuseBatchNorm2dInConv2d(Pass[BatchNormBesideLayer]):
    """Replace `bn(conv(x))` with one convolution, in evaluation mode.

    There, batch normalization is a fixed scale and shift of each channel, `y * s + t` with
    `s = gamma / sqrt(var + eps)` and `t = beta - mean * s`. A convolution is linear in its weights, so with weights
    `w * s` and bias `b * s + t` it does both in one step. It saves reading and writing every activation once (1.04
    times as fast for ResNet-50 on one CPU thread, 1.57 for MobileNetV2).

    >>> import torch, fxopt
    >>> model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8)).eval()
    >>> gm = torch.fx.symbolic_trace(model)
    >>> [node.name for node in fxopt.FuseBatchNorm2dInConv2d()(gm).graph.nodes]
    ['input_1', '_0', 'output']
    >>> [node.name for node in fxopt.FuseBatchNorm2dInConv2d()(gm, reverse=True).graph.nodes]
    ['input_1', '_0', '_1', 'output']
    """

    label = "Fold BatchNorm2d"
    needs = "a BatchNorm2d behind a Conv2d"

    targets = (nn.BatchNorm2d, *BATCH_NORM_CALLS)

    def match(self, node: Node, index: GraphIndex) -> BatchNormBesideLayer | Miss | None:
        bn = layer_of(node, index)
        if not isinstance(bn, BatchNormLayer):
            return None
        info = info_of(bn.output)
        if bn.module is None and info is not None and len(info.shape) != 4:
            return None  # not of images
        return decide(node, self._conditions(bn, index))

    def _conditions(self, bn: BatchNormLayer, index: GraphIndex) -> Conditions[BatchNormBesideLayer]:
        x, affine = yield from batch_norm_conditions(bn, (nn.BatchNorm2d,), index)
        conv = yield from of_type(layer_of(x, index), ConvLayer, lambda: _other_input(x, index))
        match = yield from fold_conditions(bn, x, affine, conv, (nn.Conv2d,), index, layer_first=True)
        what = f"a{' transposed' if conv.transposed else ''} convolution over {conv.dimensions} dimensions"
        yield (conv.dimensions == 2 and not conv.transposed) or Unmet(
            f"{conv.name} is {what}", actual=what, needed="a convolution over 2 dimensions"
        )
        yield users_condition(conv.output, bn.node, "before normalization")
        if bn.module is None:  # a BatchNorm2d makes sure itself
            yield rank_condition(x, 4, "only of (N, C, H, W) does batch norm scale the channels")
        return match

    def explain(self, match: BatchNormBesideLayer) -> str:
        return (
            f"{match.anchor.name} only scales and shifts {len(match.affine.scale)} channels of {match.layer_node.name} "
            f"(by {match.affine.range}), which its weights and bias can do themselves"
        )

    def results(self, match: BatchNormBesideLayer) -> tuple[Node, ...]:
        return (match.result,)

    def rewrite(self, match: BatchNormBesideLayer, rewriter: Rewriter) -> None:
        fold(match, rewriter, stand_in=match.layer_node)


def _other_input(x: Node, index: GraphIndex) -> Unmet:
    module = index.module_of(x)
    what = f"a {type(module).__name__}" if module is not None else f"{x.op} {target_name(x)}"
    return Unmet(f"its input {x.name} is {what}, not a Conv2d", actual=what, needed="a Conv2d")
