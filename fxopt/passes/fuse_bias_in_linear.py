"""The bias of a linear layer becomes one more column of its weight."""

from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.fx import GraphModule, Node

from fxopt.core import (
    DECOMPOSED_LINEAR_CALLS,
    LINEAR_CALLS,
    Conditions,
    GraphIndex,
    LinearLayer,
    Match,
    Miss,
    Pass,
    Rewriter,
    TensorInfo,
    Unmet,
    calls_linear,
    decide,
    decomposed_linear_miss,
    info_of,
    layer_conditions,
    layer_of,
    present,
    set_arguments,
    set_tensors,
    unread_condition,
    with_tensors,
)
from fxopt.graph.marks import made_by

_PAD = torch.ops.aten.pad.default


@dataclass(frozen=True, eq=False)
class LinearWithBias(Match):
    only_read = ("input",)

    input: Node
    linear: LinearLayer


class FuseBiasInLinear(Pass[LinearWithBias]):
    """Replace `x W^T + b` with `[x 1] [W b]^T`.

    The product of `[x 1]` and `[W b]` adds up the same terms, the bias among them, so no addition is left. It is good
    for hardware that only multiplies matrices; on a CPU or GPU the copy of `x` costs more than the addition (0.95 to
    0.99 times as fast). Linears that read the same `x` share one copy of it.

    >>> import torch, fxopt
    >>> gm = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(3, 2)))
    >>> fxopt.FuseBiasInLinear()(gm).get_submodule("0")
    Linear(in_features=4, out_features=2, bias=False)
    >>> [node.name for node in gm.graph.nodes]
    ['input_1', 'pad', '_0', 'output']
    >>> fxopt.FuseBiasInLinear()(gm, reverse=True).get_submodule("0")
    Linear(in_features=3, out_features=2, bias=True)
    """

    label = "Bias into weights"
    needs = "a Linear with a bias"

    targets = (nn.Linear, *LINEAR_CALLS, *DECOMPOSED_LINEAR_CALLS)

    def match(self, node: Node, index: GraphIndex) -> LinearWithBias | Miss | None:
        linear = layer_of(node, index)
        if not isinstance(linear, LinearLayer):
            return decomposed_linear_miss(node)
        return decide(node, self._conditions(linear, index)) if "bias" in linear.held else None

    def _conditions(self, linear: LinearLayer, index: GraphIndex) -> Conditions[LinearWithBias]:
        x = yield from layer_conditions(linear, nn.Linear, index)
        yield unread_condition(linear, index)
        weight = linear.weight
        bias = yield from present(linear.bias, lambda: Unmet(f"{linear.name} has no bias"))
        frozen, free = ("bias", "weight") if weight.requires_grad else ("weight", "bias")
        yield weight.requires_grad == bias.requires_grad or Unmet(
            f"{linear.name} has a frozen {frozen} and a {free} that trains; one tensor is either",
            remedy="let both train, or freeze both",
            actual=f"{frozen}.requires_grad=False, {free}.requires_grad=True",
            needed="the same of both",
        )
        info = info_of(x)
        yield (
            info is None
            or info.dtype == weight.dtype
            or Unmet(
                f"{x.name} is {info.dtype if info is not None else ''} but {linear.name} is {weight.dtype}",
                actual=f"an input of {info.dtype if info is not None else ''}",
                needed=str(weight.dtype),
            )
        )
        return LinearWithBias(linear.node, x, linear)

    def get_transformed_nodes(self, graph_module: GraphModule) -> list[Node]:
        """Return the linears, without the columns of ones; see `marked_nodes` for all."""
        return [node for node in self.marked_nodes(graph_module) if calls_linear(node)]

    def explain(self, match: LinearWithBias) -> str:
        (rows, columns), x = match.linear.weight.shape, match.input.name
        return (
            f"a column of ones makes {x} {columns + 1} wide, and the bias becomes column "
            f"{columns + 1} of the {rows} x {columns} weight: the same sum"
        )

    def rewrite(self, match: LinearWithBias, rewriter: Rewriter) -> None:
        node, linear = match.anchor, match.linear
        padded = self._padded(match, rewriter)
        (weight,) = rewriter.computed(_with_bias_column, linear.weight, linear.bias)
        if linear.module is None:
            set_tensors(linear, rewriter, weight=weight, bias=None)
            set_arguments(linear, rewriter, input=padded)
        else:
            fused = with_tensors(linear.module, weight=weight, bias=None)
            fused.in_features = weight.shape[1]
            rewriter.set_module(str(node.target), fused)
            rewriter.set_call(node, "call_module", node.target, (padded,), {})
        rewriter.memo[self._key(match)] = padded.name

    def _padded(self, match: LinearWithBias, rewriter: Rewriter) -> Node:
        """Return `x` with a last column of ones: the one made for another linear, if `x` is unchanged since."""
        x, node, index, key = match.input, match.anchor, rewriter.index, self._key(match)
        if key not in rewriter.memo:
            made = [user for user in x.users if user.target is key[1] and made_by(user, self.signature) and user < node]
            rewriter.memo[key] = max(made).name if made else None  # the last: writes to `x` came before it
        known = index.nodes.get(rewriter.memo[key] or "")
        if known is not None and known < node and index.writes_between(known, node, x) is None:
            return known
        info = info_of(x)
        if info is not None:
            width = match.linear.weight.shape[1] + 1
            info = replace(info, shape=(*info.shape[:-1], width)) if isinstance(info, TensorInfo) else None
        call: tuple[Any, ...] = (x, (0, 1)), {"value": 1.0}
        if key[1] is _PAD:  # operators take their arguments by position, as export writes them
            call = (x, [0, 1], "constant", 1.0), {}
        return rewriter.call_function(key[1], *call, info=info, made_from=(node,), name="pad")

    def _key(self, match: LinearWithBias) -> tuple[str, Any]:
        """Return the input, and the function that gives it one more column at the level of this call."""
        operator = isinstance(match.anchor.target, torch._ops.OpOverload)
        return match.input.name, _PAD if operator else F.pad


def _with_bias_column(weight: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor]:
    with torch.no_grad():
        return (torch.cat([weight, bias[:, None]], dim=1).requires_grad_(weight.requires_grad),)
