"""The scale of a linear layer's output goes into its weight and bias."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.fx import Node

from fxopt.core import (
    Condition,
    Conditions,
    GraphIndex,
    LinearLayer,
    Match,
    Miss,
    Pass,
    Rewriter,
    Unmet,
    decide,
    layer_conditions,
    layer_of,
    read_instead_conditions,
    set_tensors,
    unread_condition,
)
from fxopt.graph.guards import autocast_condition
from fxopt.graph.ownership import readers_condition, values_condition
from fxopt.rules.spellings import spelled, targets_of


@dataclass(frozen=True, eq=False)
class ScaledLinear(Match):
    """A product or quotient with a constant, the anchor, that alone reads a linear layer."""

    linear_node: Node
    linear: LinearLayer
    constant: float
    divides: bool


class FoldScaleInLinear(Pass[ScaledLinear]):
    """Replace `linear(x) * c` with one linear layer, whose weight and bias are multiplied by the constant `c`.

    `(W x + b) c = (c W) x + c b`, and likewise for `linear(x) / c`. Attention scales its scores by `1 / sqrt(d)`
    (Vaswani et al. 2017, arXiv:1706.03762, section 3.2.1), and many models scale the query behind its linear layer, as
    Bart and OPT do. The weights are multiplied once, so each run reads and writes one tensor less. If `c` is a power of
    two, every number of a sum is scaled exactly and the bits are the same, as long as none of them leaves the range of
    the dtype on the way; otherwise each weight is rounded once more. A number that overflows before it is scaled down,
    is finite afterwards. Training goes on with `c W` as the weight.

    >>> import torch, fxopt
    >>> class Query(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.q = torch.nn.Linear(8, 8)
    ...     def forward(self, x):
    ...         return self.q(x) * 0.125
    >>> gm = fxopt.capture(Query().eval(), (torch.rand(2, 8),))
    >>> [node.name for node in fxopt.FoldScaleInLinear()(gm).graph.nodes]
    ['x', 'q', 'output']
    >>> [node.name for node in fxopt.FoldScaleInLinear()(gm, reverse=True).graph.nodes]
    ['x', 'q', 'mul', 'output']
    """

    label = "Fold scale in linear"
    needs = "a Linear that is multiplied or divided by a constant"

    targets = (*targets_of("mul"), *targets_of("div"))

    def match(self, node: Node, index: GraphIndex) -> ScaledLinear | Miss | None:
        found = _scaled(node)
        if found is None:
            return None
        linear_node, constant, divides = found
        linear = layer_of(linear_node, index)
        if not isinstance(linear, LinearLayer):
            return None
        return decide(node, self._conditions(ScaledLinear(node, linear_node, linear, constant, divides), index))

    def _conditions(self, match: ScaledLinear, index: GraphIndex) -> Conditions[ScaledLinear]:
        node, linear = match.anchor, match.linear
        yield from layer_conditions(linear, nn.Linear, index)
        yield autocast_condition(node, index)
        others = [user for user in linear.node.users if user is not node]
        yield readers_condition(linear.node, others, needed=f"{node.name} alone")
        yield unread_condition(linear, index)
        for role, held in linear.held.items():
            if held.tensor is not None:
                yield values_condition(linear.name, held.tensor)
                yield _range_condition(f"the {role} of {linear.name}", held.tensor, match)
        yield from read_instead_conditions(node, linear.node, index)
        return match

    def explain(self, match: ScaledLinear) -> str:
        sign = "/" if match.divides else "*"
        told = (
            f"{match.anchor.name} is {match.linear.name} {sign} {match.constant:.6g}: the weights are scaled once, and "
            "not the output in each run"
        )
        if abs(math.frexp(match.constant)[0]) == 0.5:
            power = f"{match.constant:g} is a power of two, so the bits are the same"
            return f"{told}; {power} while no number overflows or underflows"
        return f"{told}; each weight is rounded once more"

    def rewrite(self, match: ScaledLinear, rewriter: Rewriter) -> None:
        roles = [role for role, held in match.linear.held.items() if held.tensor is not None]
        tensors = [match.linear.held[role].tensor for role in roles]
        scaled = rewriter.computed(_scaled_tensors, match.constant, match.divides, *tensors)
        set_tensors(match.linear, rewriter, **dict(zip(roles, scaled)))
        rewriter.replace(match.anchor, match.linear_node)


def _scaled(node: Node) -> tuple[Node, float, bool] | None:
    """Return the tensor of a product or quotient with a number, the number, and if it divides; None elsewhere."""
    spelling = spelled(node)
    if spelling is None or spelling.name not in ("mul", "div") or spelling.arguments.get("rounding_mode") is not None:
        return None
    a, b = spelling.arguments.get("input"), spelling.arguments.get("other")
    divides = spelling.name == "div"
    if not divides and not isinstance(a, Node):
        a, b = b, a
    if not isinstance(a, Node) or not isinstance(b, int | float) or isinstance(b, bool):
        return None
    return (a, b, divides) if -_LARGEST <= b <= _LARGEST else None


_LARGEST = torch.finfo(torch.float64).max


def _range_condition(name: str, tensor: torch.Tensor, match: ScaledLinear) -> Condition:
    """Require that scaled weights are finite normal numbers, and zero only where they were."""
    limits = torch.finfo(tensor.dtype)
    [scaled] = _scaled_tensors(match.constant, match.divides, tensor.detach())
    sizes = scaled.abs()
    fits = ((sizes >= limits.tiny) | (tensor == 0)) & (sizes <= limits.max)
    return bool(fits.all()) or Unmet(
        f"{name} would hold numbers that {tensor.dtype} has not, scaled by {match.constant:g}",
        actual=f"{int((~fits).sum())} numbers",
        needed=f"0, or {limits.tiny:.3g} to {limits.max:.3g}",
    )


def _scaled_tensors(constant: float, divides: bool, *tensors: Any) -> tuple[torch.Tensor, ...]:
    """Return tensors multiplied or divided by a number, each with the ``requires_grad`` of before."""
    with torch.no_grad():
        return tuple(
            (one / constant if divides else one * constant).requires_grad_(one.requires_grad) for one in tensors
        )
