"""Batch normalization after or before a linear layer is folded into the linear layer's weights."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.fx import Node

from fxopt.core import GraphIndex, Match, Miss, Pass, Rewriter, info_of, input_of, module_miss, with_tensors
from fxopt.passes.batch_norm import batch_norm_miss, scale_and_shift, scaled, shifted


@dataclass(frozen=True, eq=False)
class LinearAndBatchNorm(Match):
    linear_node: Node
    linear: nn.Linear
    bn: nn.BatchNorm1d
    linear_first: bool


class FuseBatchNorm1dInLinear(Pass[LinearAndBatchNorm]):
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

    targets = (nn.BatchNorm1d,)

    def match(self, node: Node, index: GraphIndex) -> LinearAndBatchNorm | Miss | None:
        miss = batch_norm_miss(node, nn.BatchNorm1d, index)
        if miss is not None:
            return miss
        x = input_of(node)
        assert x is not None
        follower = next(iter(node.users), None)
        after = isinstance(index.module_of(x), nn.Linear)
        before = follower is not None and isinstance(index.module_of(follower), nn.Linear)
        if not after and not before:
            return Miss(node, f"neither its input {x.name} nor a user is a Linear")
        miss = _rank_miss(node, x)
        if miss is not None:
            return miss
        found: LinearAndBatchNorm | Miss | None = None
        if after:
            found = self._match_linear(node, x, x, index)
        if before and not isinstance(found, LinearAndBatchNorm):
            assert follower is not None
            later = self._match_linear(node, follower, x, index)
            found = later if found is None or isinstance(later, LinearAndBatchNorm) else found
        return found

    def _match_linear(self, node: Node, linear_node: Node, x: Node, index: GraphIndex) -> LinearAndBatchNorm | Miss:
        """Whether the batch norm at `node` folds into the linear at `linear_node`, its input or a user."""
        first, second = (linear_node, node) if linear_node is x else (node, linear_node)
        if len(first.users) > 1:
            others = ", ".join(user.name for user in first.users if user is not second)
            return Miss(node, f"{first.name} has other users ({others}), which need it as it is")
        miss = module_miss(node, linear_node, nn.Linear, index)
        if miss is not None:
            return miss
        linear, bn = index.module_of(linear_node), index.module_of(node)
        assert isinstance(linear, nn.Linear)
        assert isinstance(bn, nn.BatchNorm1d)
        assert bn.running_mean is not None
        if (linear.weight.dtype, linear.weight.device) != (bn.running_mean.dtype, bn.running_mean.device):
            return Miss(
                node,
                f"{linear_node.target} is {linear.weight.dtype} on {linear.weight.device} but {node.target} is "
                f"{bn.running_mean.dtype} on {bn.running_mean.device}",
                remedy="bring them to one dtype and device",
            )
        if first is node:
            writer = index.writes_between(node, linear_node, x)
            if writer is not None:
                return Miss(
                    node,
                    f"{writer.name} changes {x.name} in place between {node.name} and {linear_node.name}",
                )
        return LinearAndBatchNorm(node, linear_node, linear, bn, linear_first=first is linear_node)

    def explain(self, match: LinearAndBatchNorm) -> str:
        scale, _ = scale_and_shift(match.bn)
        what = "rows of the weight" if match.linear_first else "columns of the weight"
        return (
            f"{match.anchor.name} only scales and shifts {match.bn.num_features} features (by {scale.min().item():.3g} "
            f"to {scale.max().item():.3g}), which the {what} and the bias of {match.linear_node.name} can do themselves"
        )

    def rewrite(self, match: LinearAndBatchNorm, rewriter: Rewriter) -> None:
        linear, bn, node = match.linear, match.bn, match.anchor
        scale, shift = scale_and_shift(bn)
        if match.linear_first:
            weight = scaled(linear.weight, scale[:, None])
            bias = shifted(linear.bias, scale, shift, like=linear.weight)
        else:
            weight = scaled(linear.weight, scale[None, :])
            with torch.no_grad():
                carried = linear.weight.double() @ shift
            bias = shifted(linear.bias, torch.ones_like(carried), carried, like=linear.weight)
        trains = any(tensor is not None and tensor.requires_grad for tensor in (linear.bias, bn.bias))
        fused = with_tensors(
            linear,
            weight=weight.requires_grad_(linear.weight.requires_grad),
            bias=bias.requires_grad_(trains),
        )
        rewriter.set_module(str(match.linear_node.target), fused, called_by=match.linear_node)
        x = input_of(node)
        assert x is not None
        rewriter.replace(node, x)


def _rank_miss(node: Node, x: Node) -> Miss | None:
    info = info_of(x) or info_of(node)
    if info is None:
        return Miss(
            node,
            f"the shape of {x.name} is not known: of (N, C) the fold is right, of (N, C, L) it is not",
            remedy="capture the model with example inputs (fxopt.capture)",
        )
    if len(info.shape) != 2:
        return Miss(
            node,
            f"{x.name} has shape {tuple(info.shape)}: batch norm scales dimension 1, Linear works on the last",
        )
    return None
