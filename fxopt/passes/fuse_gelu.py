"""A GELU that is written out operation by operation becomes one call, each way of writing it by a rule of its own."""

# a parameter of a rule without an annotation may be any value:
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-any-generics

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from fxopt.rules import RuleSet, require, rewrite

_CUBIC = 0.044715
"""Of x^3 in the approximation by tanh (Hendrycks and Gimpel 2016, arXiv:1606.08415, section 2)."""


@rewrite
def gelu_by_tanh(x: torch.Tensor, half: float, cubic: float, cube: float | int, scale: float, one: float | int):
    """Replace `0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))` with `gelu(x, approximate="tanh")`."""
    yield x * half * (torch.tanh((x + torch.pow(x, cube) * cubic) * scale) + one)
    require_gelu(x, (half, 0.5), (one, 1), (cube, 3), (cubic, _CUBIC), (scale, math.sqrt(2 / math.pi)))
    return F.gelu(x, approximate="tanh")


@rewrite
def gelu_by_tanh_of_a_product(x: torch.Tensor, half: float, cubic: float, scale: float, one: float | int):
    """Replace `0.5 * x * (1 + tanh(sqrt(2 / pi) * x * (1 + 0.044715 * x * x)))` with `gelu(x, approximate="tanh")`."""
    yield x * half * (torch.tanh(x * scale * (x * cubic * x + one)) + one)
    require_gelu(x, (half, 0.5), (one, 1), (cubic, _CUBIC), (scale, math.sqrt(2 / math.pi)))
    return F.gelu(x, approximate="tanh")


def require_gelu(x: torch.Tensor, *pairs: tuple[float, float]) -> None:
    """Require that the first number of each pair is the second, to the digits of the dtype of `x`, and a real dtype."""
    for found, expected in pairs:
        require(math.isclose(found, expected, rel_tol=1e-6))
    require(
        x.dtype.is_floating_point,
        f"{x} is {x.dtype}, for which torch has no gelu",
        actual=str(x.dtype),
        needed="a floating-point dtype",
    )
    for found, expected in pairs:
        require(
            math.isclose(found, expected, rel_tol=4 * torch.finfo(x.dtype).eps),
            f"the constant {found!r} has fewer digits than {x.dtype}, and gelu computes with {expected!r}",
            actual=repr(found),
            needed=repr(expected),
        )


class FuseGelu(RuleSet):
    """Replace `0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))` with one call of `torch.nn.functional.gelu`.

    GPT-2 and others write the activation out as eight operations, each of which reads and writes the whole tensor. One
    call reads it once, and computes the same formula; results differ by rounding. Behind a linear layer, `PackLinears`
    then takes the call along. The exact GELU, written with `erf`, is left alone: of infinity, torch's own call makes
    NaN on some processors, and the product makes infinity.

    >>> import torch, fxopt
    >>> from transformers.activations import NewGELUActivation
    >>> gm = fxopt.capture(NewGELUActivation().eval(), (torch.rand(2, 8),))
    >>> [node.name for node in fxopt.FuseGelu()(gm).graph.nodes]
    ['input_1', 'mul_3', 'output']
    """

    label = "Fuse GELU"
    needs = "a GELU written out as a product with 1 + tanh(...)"

    rules = (gelu_by_tanh, gelu_by_tanh_of_a_product)
