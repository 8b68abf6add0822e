"""Linear layers read a packed copy of their weights, and compute the activation or the sum behind them as well."""

from __future__ import annotations

from torch import nn

from fxopt.core import Conditions, GraphIndex, LinearLayer
from fxopt.packed import PackedLinear
from fxopt.passes.packing import (
    LayerToPack,
    LinearPacking,
    explain_packing,
    packing_conditions,
    with_calls_behind,
)


class PackLinears(LinearPacking):
    """Replace `act(x W^T + b)`, or `x W^T + b + y`, with one call that reads `W` packed, on a CPU without gradients.

    A matrix product goes block by block through the caches of a processor. oneDNN, the library of Intel that torch
    brings along, reads a weight fastest if it lies in memory in just that order, and a packed copy is laid so once,
    instead of in each call. Before a block of the product goes to memory, it takes an activation or the sum with a
    residual `y` along: that saves a pass over memory for each. Between the product and its activation there may be a
    reshape, as in GPT-2.

    It may pay where the weights are large against the rows of `x`, as in a transformer on a short text (`docs/speed.md`
    has figures). A small product is slower, by the 30 microseconds that a call of oneDNN takes. It costs the memory of
    the packed copy, once for each weight, however many graphs use it. The same products are summed in
    another order, so results differ by rounding, about 1e-6 of the largest; the activation may differ by that as well.

    It is for inference: call the graph module under `torch.inference_mode()` or `torch.no_grad()`. Where a gradient
    is asked for, or a dtype, device or compiler that oneDNN cannot serve, the packed layer computes as before.

    >>> import torch, fxopt
    >>> model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 8)).eval()
    >>> gm = fxopt.capture(model, (torch.rand(2, 8),))
    >>> fxopt.PackLinears()(gm).get_submodule("0")
    PackedLinear(in_features=8, out_features=16, bias=True, activation=gelu)
    >>> fxopt.PackLinears()(gm, reverse=True).get_submodule("0")
    Linear(in_features=8, out_features=16, bias=True)
    """

    label = "Pack linears"
    needs = "a Linear on a CPU"

    def _conditions(self, layer: LinearLayer, index: GraphIndex) -> Conditions[LayerToPack]:
        yield from packing_conditions(layer, nn.Linear, index)
        return with_calls_behind(layer, index, reshape_between=True)

    def explain(self, match: LayerToPack) -> str:
        return explain_packing(match)

    def _packed(self, match: LayerToPack, *, training: bool) -> PackedLinear:
        held = match.layer
        return PackedLinear(held.weight, held.bias, match.activation, other_first=match.other_first, training=training)
