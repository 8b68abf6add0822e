"""Rules as users write them with `fxopt.rewrite`: folding, removing, merging, and new modules."""

import torch
import torch.nn.functional as F
from torch import nn

import fxopt
from fxopt import require


@fxopt.rewrite
def fold_scale(x, linear: nn.Linear, c: float | int):
    """Replace `linear(x) * c` with a linear layer whose weight and bias are c times as large."""
    yield linear(x) * c
    bias = linear.bias * c if linear.bias is not None else None
    return fxopt.with_tensors(linear, weight=linear.weight * c, bias=bias)(x)


@fxopt.rewrite
def join_linears(x, first: nn.Linear, second: nn.Linear):
    """Replace `second(first(x))` with one linear layer."""
    yield second(first(x))
    bias = second.bias if first.bias is None else F.linear(first.bias, second.weight, second.bias)
    joined = fxopt.with_tensors(first, weight=second.weight @ first.weight, bias=bias)
    joined.out_features = second.out_features
    return joined(x)


@fxopt.rewrite
def add_linears(x, a: nn.Linear, b: nn.Linear):
    """Replace `a(x) + b(x)` with one linear layer whose weights are the sums."""
    yield a(x) + b(x)
    require(a.weight.shape == b.weight.shape, "the layers differ in shape")
    require(a.bias is not None and b.bias is not None, "not both have a bias")
    require(a.weight.dtype == b.weight.dtype, "the layers differ in dtype")
    return fxopt.with_tensors(a, weight=a.weight + b.weight, bias=a.bias + b.bias)(x)


@fxopt.rewrite(exactness=fxopt.Exactness.BITWISE)
def relu_once(x):
    """Replace `relu(relu(x))` with `relu(x)`."""
    h = torch.relu(x)
    yield torch.relu(h)
    return h


@fxopt.rewrite(exactness=fxopt.Exactness.BITWISE)
def remove_identity(x, identity: nn.Identity):
    """Replace `identity(x)` with `x`."""
    yield identity(x)
    return x


@fxopt.rewrite(exactness=fxopt.Exactness.BITWISE)
def remove_one(x, c: float | int):
    """Replace `x * 1` with `x`."""
    yield x * c
    require(c == 1, f"the factor is {c}")
    return x


@fxopt.rewrite(exactness=fxopt.Exactness.BITWISE)
def double(x: torch.Tensor):
    """Replace `x + x` with `x * 2`."""
    yield x + x
    return x * 2


@fxopt.rewrite(exactness=fxopt.Exactness.BITWISE)
def functional_norm(x, norm: nn.LayerNorm):
    """Replace a layer norm module with the function."""
    yield norm(x)
    return F.layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)


RULES = (fold_scale, join_linears, add_linears, relu_once, remove_identity, remove_one, double, functional_norm)
