"""A root-mean-square norm that is written out becomes one call, each way of writing it by a rule of its own."""

# a parameter of a rule without an annotation may be any value:
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-any-generics

from __future__ import annotations

import torch
import torch.nn.functional as F

from fxopt.rules import RuleSet, require, rewrite


@rewrite
def rms_norm_in_float32(
    x: torch.Tensor, weight: torch.Tensor, wide: torch.dtype, square: float | int, dims: tuple, eps: float
):
    """Replace `w * (y * rsqrt(mean(y^2) + eps)).to(x.dtype)`, for `y = x.float()`, with `rms_norm(x, (n,), w, eps)`."""
    y = x.to(wide)
    yield weight * (y * torch.rsqrt(torch.pow(y, square).mean(dims, keepdim=True) + eps)).to(x.dtype)
    require_rms_norm(x, weight, square, dims, wide, x.dtype)
    return F.rms_norm(x, (x.shape[-1],), weight, eps)


@rewrite
def rms_norm_between_casts(
    x: torch.Tensor,
    weight: torch.Tensor,
    wide: torch.dtype,
    square: float | int,
    dims: tuple,
    eps: float,
    narrow: torch.dtype,
):
    """Replace `w * (y * rsqrt(mean(y^2) + eps)).to(dtype)`, for `y = x.float()`, with `rms_norm(x, (n,), w, eps)`."""
    y = x.to(wide)
    yield weight * (y * torch.rsqrt(torch.pow(y, square).mean(dims, keepdim=True) + eps)).to(narrow)
    require_rms_norm(x, weight, square, dims, wide, narrow)
    return F.rms_norm(x, (x.shape[-1],), weight, eps)


@rewrite
def rms_norm_of_squares_in_float32(
    x: torch.Tensor, weight: torch.Tensor, wide: torch.dtype, square: float | int, dims: tuple, eps: float
):
    """Replace `w * (x * rsqrt(mean(x.float()^2) + eps))`, as T5 writes it, with `rms_norm(x, (n,), w, eps)`."""
    yield weight * (x * torch.rsqrt(torch.pow(x.to(wide), square).mean(dims, keepdim=True) + eps))
    require_rms_norm(x, weight, square, dims, wide, wide)
    return F.rms_norm(x, (x.shape[-1],), weight, eps)


@rewrite
def rms_norm_in_its_own_dtype(x: torch.Tensor, weight: torch.Tensor, square: float | int, dims: tuple, eps: float):
    """Replace `w * (x * rsqrt(mean(x^2) + eps))` with `rms_norm(x, (n,), w, eps)`."""
    yield weight * (x * torch.rsqrt(torch.pow(x, square).mean(dims, keepdim=True) + eps))
    require_rms_norm(x, weight, square, dims, _computed_in(x), x.dtype)
    require(
        x.dtype.itemsize >= 4,
        f"the squares are {x.dtype}, in which they may overflow, and rms_norm computes them in float32",
        actual=str(x.dtype),
        needed="float32 or float64",
    )
    return F.rms_norm(x, (x.shape[-1],), weight, eps)


def require_rms_norm(
    x: torch.Tensor, weight: torch.Tensor, square: float, dims: tuple, wide: torch.dtype, narrow: torch.dtype
) -> None:
    """Require a norm of the last dimension, with a weight for each number of it.

    Args:
        wide: the dtype of the squares.
        narrow: the dtype in which the weight multiplies.
    """
    require(square == 2)
    require([dim % x.ndim for dim in dims] == [x.ndim - 1])
    width = x.shape[-1]
    require(
        isinstance(width, int),
        f"the size {width} is free, and rms_norm is given the size of the last dimension",
        actual=str(width),
        needed="a fixed size",
    )
    require(
        weight.shape == (width,),
        f"{weight} has shape {tuple(weight.shape)}, and rms_norm takes a number for each of the last dimension of {x}",
        actual=str(tuple(weight.shape)),
        needed=f"({width},)",
    )
    require(
        x.dtype.is_floating_point and x.dtype == weight.dtype == narrow,
        f"{x} is {x.dtype}, {weight} {weight.dtype}, and the product of them {narrow}; rms_norm gives the dtype of its "
        "input",
        actual=f"{x.dtype}, {weight.dtype} and {narrow}",
        needed="one floating-point dtype",
    )
    require(
        wide == _computed_in(x),
        f"the squares are {wide}, and rms_norm computes in float32 at least, and in the dtype of {x}, {x.dtype}",
        actual=str(wide),
        needed=str(_computed_in(x)),
    )


def _computed_in(x: torch.Tensor) -> torch.dtype:
    """Return the dtype in which `rms_norm` of `x` computes the squares."""
    return torch.float32 if x.dtype.itemsize < 4 else x.dtype


class FuseRMSNorm(RuleSet):
    """Replace `w x / sqrt(mean(x^2) + eps)`, written out as in Llama, with one call of `torch.nn.functional.rms_norm`.

    The norm divides each row by its root mean square (Zhang and Sennrich 2019, arXiv:1910.07467), and multiplies by a
    weight. Llama and its relatives write it as six operations, each of which reads and writes the whole tensor, with
    casts to float32 around them. One call computes the same formula in the same order; with a narrower dtype than
    float32, it multiplies by the weight before it rounds, not after, so results differ by rounding. On CUDA the call is
    one kernel. On a CPU torch itself makes the same operations of it, without the detour by Python for each.

    >>> import torch, fxopt
    >>> from transformers.models.llama.modeling_llama import LlamaRMSNorm
    >>> gm = fxopt.capture(LlamaRMSNorm(8).eval(), (torch.rand(2, 8),))
    >>> [node.name for node in fxopt.FuseRMSNorm()(gm).graph.nodes]
    ['hidden_states', 'weight', 'mul_1', 'output']
    >>> len(fxopt.FuseRMSNorm()(gm, reverse=True).graph.nodes)
    12
    """

    label = "Fuse RMS norm"
    needs = "a root-mean-square norm written out with rsqrt, as in Llama"

    rules = (rms_norm_in_float32, rms_norm_between_casts, rms_norm_of_squares_in_float32, rms_norm_in_its_own_dtype)
