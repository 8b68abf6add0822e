"""Two linear layers in a row become one, where that takes fewer multiplications."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.fx import Node

from fxopt.core import (
    LINEAR_CALLS,
    Conditions,
    Exactness,
    GraphIndex,
    LinearLayer,
    Match,
    Miss,
    Pass,
    Rewriter,
    Unmet,
    decide,
    dtype_conditions,
    layer_conditions,
    layer_of,
    remove_tensors,
    set_arguments,
    set_tensors,
    unread_condition,
    unwritten_condition,
    with_tensors,
)
from fxopt.graph.ownership import readers_condition, values_condition


@dataclass(frozen=True, eq=False)
class LinearOfLinear(Match):
    """A linear layer, the anchor, that alone reads another one."""

    only_read = ("input",)

    input: Node
    first_node: Node
    first: LinearLayer
    second: LinearLayer


class JoinLinears(Pass[LinearOfLinear]):
    """Replace `second(first(x))`, two linear layers with nothing in between, with one layer, where it is cheaper.

    `W2 (W1 x + b1) + b2` is `(W2 W1) x + (W2 b1 + b2)`. From `n` numbers through `m` to `k`, two layers take
    `m (n + k)` multiplications a row and one takes `n k`: fewer, unless `m` is so small that the two are a bottleneck
    on purpose, as in a low-rank layer, which is left alone. The product of the weights is computed in float64 and
    rounded once; results differ by rounding. Where an input is infinite, or a number between the layers leaves the
    range of its type, the two layers may give NaN or infinity where the one does not, so the pass is `APPROXIMATE`, and
    runs on request alone: it is out of `ALL_PASSES`. It costs the memory of the new weight, `n k` numbers, while the
    way back holds the two; and training goes on with `W2 W1` as one weight.

    >>> import torch, fxopt
    >>> model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Linear(32, 4)).eval()
    >>> gm = fxopt.capture(model, (torch.rand(2, 8),))
    >>> [node.name for node in fxopt.JoinLinears()(gm).graph.nodes]
    ['input_1', '_1', 'output']
    >>> [node.name for node in fxopt.JoinLinears()(gm, reverse=True).graph.nodes]
    ['input_1', '_0', '_1', 'output']
    """

    label = "Join linears"
    needs = "a Linear that alone reads another one"

    targets = (nn.Linear, *LINEAR_CALLS)

    def match(self, node: Node, index: GraphIndex) -> LinearOfLinear | Miss | None:
        second = layer_of(node, index)
        if not isinstance(second, LinearLayer) or second.input is None:
            return None
        first = layer_of(second.input, index)
        return decide(node, self._conditions(first, second, index)) if isinstance(first, LinearLayer) else None

    def _conditions(self, first: LinearLayer, second: LinearLayer, index: GraphIndex) -> Conditions[LinearOfLinear]:
        yield from layer_conditions(second, nn.Linear, index)
        x = yield from layer_conditions(first, nn.Linear, index)
        others = [user for user in first.node.users if user is not second.node]
        yield readers_condition(first.node, others, needed=f"{second.node.name} alone")
        yield unread_condition(first, index)
        yield unread_condition(second, index)
        yield from dtype_conditions(first, second)
        one, two = _multiplications(first, second)
        yield one < two or Unmet(
            f"one layer takes {one:,} multiplications a row, and the two take {two:,}: between them are only "
            f"{first.weight.shape[0]} numbers",
            actual=f"{one:,} multiplications",
            needed=f"fewer than {two:,}",
        )
        trains = [layer.weight.requires_grad for layer in (first, second)]
        yield trains[0] == trains[1] or Unmet(
            f"{(first if trains[0] else second).name} trains, and {(second if trains[0] else first).name} is frozen",
            actual="one that trains and one that is frozen",
            needed="both alike",
        )
        yield values_condition(first.name, first.weight)
        largest, limit = _largest(first, second), torch.finfo(first.weight.dtype).max
        yield largest <= limit or Unmet(
            f"the product of the weights may leave the range of {first.weight.dtype}",
            actual=f"sums of up to {largest:.3g}",
            needed=f"<= {limit:.3g}",
        )
        yield unwritten_condition(x, first.node, second.node, index)
        return LinearOfLinear(second.node, x, first.node, first, second)

    def explain(self, match: LinearOfLinear) -> str:
        one, two = _multiplications(match.first, match.second)
        return (
            f"{match.anchor.name} does the work of {match.first_node.name} as well, by the product of their weights: "
            f"{one:,} multiplications a row instead of {two:,}"
        )

    def exactness(self, match: LinearOfLinear) -> Exactness:
        return Exactness.APPROXIMATE

    def rewrite(self, match: LinearOfLinear, rewriter: Rewriter) -> None:
        first, second = match.first, match.second
        weight, *bias = rewriter.computed(_product, first.weight, first.bias, second.weight, second.bias)
        tensors = {"weight": weight, "bias": bias[0] if bias else None}
        if second.module is not None:
            joined = with_tensors(second.module, **tensors)
            joined.in_features = weight.shape[1]
            rewriter.set_module(second.path, joined, called_by=second.node)
            rewriter.set_call(second.node, "call_module", second.path, (match.input,), {})
        else:
            set_tensors(second, rewriter, **{name: one for name, one in tensors.items() if one is not None})
            set_arguments(second, rewriter, input=match.input)
        rewriter.erase(first.node)
        remove_tensors(first, rewriter)


def _multiplications(first: LinearLayer, second: LinearLayer) -> tuple[int, int]:
    """Return the multiplications for a row by one layer, and by the two."""
    (inner, width), out = first.weight.shape, second.weight.shape[0]
    return width * out, inner * (width + out)


def _largest(first: LinearLayer, second: LinearLayer) -> float:
    """Return a bound of the numbers of the new weight and bias; NaN if a weight is NaN."""
    if not all(layer.weight.numel() for layer in (first, second)):
        return 0.0
    inner = first.weight.shape[0]
    ends = [_end(layer.weight) for layer in (first, second)]
    biases = [_end(layer.bias) if layer.bias is not None else 0.0 for layer in (first, second)]
    return inner * ends[1] * max(ends[0], biases[0]) + biases[1]


def _end(tensor: torch.Tensor) -> float:
    """Return the largest number of `tensor` by size."""
    return float(torch.linalg.vector_norm(tensor.detach().double(), torch.inf))


def _product(
    weight1: torch.Tensor, bias1: torch.Tensor | None, weight2: torch.Tensor, bias2: torch.Tensor | None
) -> tuple[torch.Tensor, ...]:
    """Return the weight and, if there is one, the bias of both layers, computed in float64 and rounded once."""
    with torch.no_grad():
        wide = weight2.double()
        weight = (wide @ weight1.double()).to(weight2.dtype).requires_grad_(weight2.requires_grad)
        if bias1 is None and bias2 is None:
            return (weight,)
        bias = torch.zeros(len(wide), dtype=torch.float64, device=wide.device) if bias2 is None else bias2.double()
        if bias1 is not None:
            bias = bias + wide @ bias1.double()
        trains = any(one is not None and one.requires_grad for one in (bias1, bias2))
        return weight, bias.to(weight2.dtype).requires_grad_(trains)
