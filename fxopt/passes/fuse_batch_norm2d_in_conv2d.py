"""Batch normalization after a convolution is folded into the convolution's weights."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.fx import Node

from fxopt.core import GraphIndex, Match, Miss, Pass, Rewriter, input_of, module_miss, with_tensors
from fxopt.passes.batch_norm import batch_norm_miss, scale_and_shift, scaled, shifted


@dataclass(frozen=True, eq=False)
class ConvThenBatchNorm(Match):
    conv_node: Node
    conv: nn.Conv2d
    bn: nn.BatchNorm2d


class FuseBatchNorm2dInConv2d(Pass[ConvThenBatchNorm]):
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

    targets = (nn.BatchNorm2d,)

    def match(self, node: Node, index: GraphIndex) -> ConvThenBatchNorm | Miss | None:
        miss = batch_norm_miss(node, nn.BatchNorm2d, index)
        if miss is not None:
            return miss
        conv_node, bn = input_of(node), index.module_of(node)
        assert conv_node is not None
        conv = index.module_of(conv_node)
        if not isinstance(conv, nn.Conv2d):
            what = f"a {type(conv).__name__}" if conv is not None else f"{conv_node.op} {conv_node.target}"
            return Miss(node, f"its input {conv_node.name} is {what}, not a Conv2d")
        miss = module_miss(node, conv_node, nn.Conv2d, index)
        if miss is not None:
            return miss
        if len(conv_node.users) > 1:
            others = ", ".join(user.name for user in conv_node.users if user is not node)
            return Miss(node, f"{conv_node.name} has other users ({others}), which need it before normalization")
        assert isinstance(bn, nn.BatchNorm2d)
        assert bn.running_mean is not None
        if (conv.weight.dtype, conv.weight.device) != (bn.running_mean.dtype, bn.running_mean.device):
            return Miss(
                node,
                f"{conv_node.target} is {conv.weight.dtype} on {conv.weight.device} but {node.target} is "
                f"{bn.running_mean.dtype} on {bn.running_mean.device}",
                remedy="bring them to one dtype and device",
            )
        return ConvThenBatchNorm(node, conv_node, conv, bn)

    def explain(self, match: ConvThenBatchNorm) -> str:
        scale, _ = scale_and_shift(match.bn)
        return (
            f"{match.anchor.name} only scales and shifts {match.bn.num_features} channels of {match.conv_node.name} "
            f"(by {scale.min().item():.3g} to {scale.max().item():.3g}), which its weights and bias can do themselves"
        )

    def rewrite(self, match: ConvThenBatchNorm, rewriter: Rewriter) -> None:
        conv, bn = match.conv, match.bn
        scale, shift = scale_and_shift(bn)
        weight = scaled(conv.weight, scale.reshape(-1, 1, 1, 1)).requires_grad_(conv.weight.requires_grad)
        bias = shifted(conv.bias, scale, shift, like=conv.weight).requires_grad_(_trains(conv.bias, bn.bias))
        fused = with_tensors(conv, weight=weight, bias=bias)
        rewriter.set_module(str(match.conv_node.target), fused, called_by=match.conv_node)
        rewriter.replace(match.anchor, match.conv_node)


def _trains(*biases: torch.Tensor | None) -> bool:
    return any(bias is not None and bias.requires_grad for bias in biases)
