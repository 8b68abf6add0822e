"""What batch normalization computes in evaluation mode, for the passes that fold it."""

import torch
from torch import nn
from torch.fx import Node

from fxopt.core import GraphIndex, Miss, module_miss

BatchNorm = nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d


def batch_norm_miss(node: Node, kind: type[BatchNorm], index: GraphIndex) -> Miss | None:
    """Why the batch normalization that `node` calls is not a fixed scale and shift; None if it is."""
    bn = index.module_of(node)
    assert isinstance(bn, nn.modules.batchnorm._BatchNorm)
    if bn.training:
        return Miss(
            node,
            f"{node.target} is in training mode: the batch itself sets the scale and shift",
            "model.eval()",
        )
    if bn.running_mean is None or bn.running_var is None:
        return Miss(
            node,
            f"{node.target} keeps no running statistics (track_running_stats=False): the batch itself sets the scale",
        )
    miss = module_miss(node, node, kind, index)
    if miss is not None:
        return miss
    if bn.running_mean.is_meta:
        return Miss(
            node,
            f"{node.target} has no values (its tensors are on the meta device)",
            "load its weights first",
        )
    scale, shift = scale_and_shift(bn)
    limit = torch.finfo(bn.running_mean.dtype).max
    if not bool(((scale.abs() <= limit) & (shift.abs() <= limit)).all()):
        return Miss(node, f"the scale or shift of {node.target} is not a finite {bn.running_mean.dtype}")
    return None


def scale_and_shift(bn: nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
    """`s` and `t`, float64 of shape (C,), so that in evaluation mode `bn(x) = x * s + t` in each channel.

    With `s = gamma / sqrt(var + eps)` and `t = beta - mean * s` (Ioffe and Szegedy 2015, section 3.1). A missing
    `gamma` is one, a missing `beta` zero.
    """
    assert isinstance(bn, nn.modules.batchnorm._BatchNorm)
    assert bn.running_mean is not None
    assert bn.running_var is not None
    with torch.no_grad():
        scale = torch.rsqrt(bn.running_var.double() + bn.eps)
        if bn.weight is not None:
            scale = scale * bn.weight.double()
        shift = -bn.running_mean.double() * scale
        if bn.bias is not None:
            shift = shift + bn.bias.double()
    return scale, shift


def scaled(weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """`weight * scale` in the dtype of `weight`, computed in float32 at least and rounded once."""
    with torch.no_grad():
        if weight.dtype in (torch.float32, torch.float64):
            return weight * scale.to(weight.dtype)
        return (weight.float() * scale.float()).to(weight.dtype)


def shifted(bias: torch.Tensor | None, scale: torch.Tensor, shift: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """`bias * scale + shift`, computed in float64, in the dtype of `like`; a missing bias is zero."""
    with torch.no_grad():
        total = shift if bias is None else bias.double() * scale + shift
        return total.to(like.dtype)
