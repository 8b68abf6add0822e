"""An `addmm` of a parameter becomes a linear layer that reads the same numbers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.fx import Node

from fxopt.core import (
    ADDMM_CALLS,
    AddmmLayer,
    Conditions,
    Exactness,
    GraphIndex,
    Held,
    Match,
    Miss,
    Pass,
    Rewriter,
    Unmet,
    decide,
    decomposed_linear_miss,
    layer_conditions,
    layer_of,
    of_type,
    path_beside,
    remove_tensors,
)


@dataclass(frozen=True, eq=False)
class AddmmOfWeight(Match):
    only_read = ("input",)

    input: Node
    layer: AddmmLayer
    weight: nn.Parameter
    bias: nn.Parameter


class ChangeAddmmToLinear(Pass[AddmmOfWeight]):
    """Replace `torch.addmm(b, x, W)` with a linear layer whose weight is the view `W^T`.

    GPT-2 and its relatives write a linear layer this way (``Conv1D`` in transformers), with the weight the other way
    round, so that no pass for linear layers sees it. `torch.nn.Linear` computes `addmm(b, x, weight^T)`, and the
    transpose of the view is `W` itself: the very same call, to the bit. No number is copied. By itself it makes nothing
    faster; it opens the layer for `PackLinears`, `MergeLinears` and the others.

    >>> import torch, fxopt
    >>> from transformers.pytorch_utils import Conv1D
    >>> gm = fxopt.capture(Conv1D(6, 4).eval(), (torch.rand(2, 3, 4),))
    >>> fxopt.ChangeAddmmToLinear()(gm).get_submodule("linear")
    Linear(in_features=4, out_features=6, bias=True)
    >>> fxopt.ChangeAddmmToLinear()(gm, reverse=True).weight.shape
    torch.Size([4, 6])
    """

    label = "Addmm to linear"
    needs = "an addmm with a fixed weight, as in Conv1D of transformers"

    targets = ADDMM_CALLS

    def match(self, node: Node, index: GraphIndex) -> AddmmOfWeight | Miss | None:
        layer = layer_of(node, index)
        if not isinstance(layer, AddmmLayer) or decomposed_linear_miss(node) is not None:
            return None
        return decide(node, self._conditions(layer, index)) if layer.held["weight"].tensor is not None else None

    def _conditions(self, layer: AddmmLayer, index: GraphIndex) -> Conditions[AddmmOfWeight]:
        x = yield from layer_conditions(layer, (), index)
        weight = yield from of_type(layer.weight, nn.Parameter, lambda: _buffer(layer.held["weight"]))
        bias = yield from of_type(layer.bias, nn.Parameter, lambda: _buffer(layer.held["bias"]))
        yield tuple(bias.shape) == (weight.shape[1],) or Unmet(
            f"{layer.name} adds a tensor of shape {tuple(bias.shape)}; a linear layer adds a number for each column",
            actual=str(tuple(bias.shape)),
            needed=f"({weight.shape[1]},)",
        )
        return AddmmOfWeight(layer.node, x, layer, weight, bias)

    def exactness(self, match: AddmmOfWeight) -> Exactness:
        return Exactness.BITWISE

    def explain(self, match: AddmmOfWeight) -> str:
        columns, rows = match.weight.shape
        name = match.layer.held["weight"].path
        return (
            f"{match.anchor.name} becomes a linear layer from {columns} to {rows} features: it holds the transpose of "
            f"{name} as a view, and multiplies by the transpose of that, the same product to the bit"
        )

    def rewrite(self, match: AddmmOfWeight, rewriter: Rewriter) -> None:
        layer, weight = match.layer, match.weight
        columns, rows = weight.shape
        with torch.device("meta"):  # nothing is drawn or allocated
            linear = nn.Linear(columns, rows)
        with torch.inference_mode(weight.is_inference()):  # a view of an inference tensor is one, too
            linear.weight = nn.Parameter(weight.detach().t(), weight.requires_grad)
        linear._parameters["bias"] = match.bias
        linear.train(rewriter.index.gm.training)
        path = rewriter.free_path(path_beside(layer.held["weight"].path, "linear"))
        rewriter.set_module(path, linear)
        rewriter.set_call(layer.node, "call_module", path, (match.input,), {})
        remove_tensors(layer, rewriter)


def _buffer(held: Held) -> Unmet:
    return Unmet(
        f"{held.path} is a buffer, and a linear layer has parameters",
        remedy="register it as a parameter",
        actual="a buffer",
        needed="a parameter",
    )
