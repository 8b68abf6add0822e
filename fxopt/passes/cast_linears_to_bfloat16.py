"""Linear layers multiply in bfloat16: half the bytes, and instructions that take twice the numbers."""

from __future__ import annotations

import torch
from torch import nn

from fxopt.core import (
    Conditions,
    Exactness,
    GraphIndex,
    LinearLayer,
    Unmet,
)
from fxopt.packed import BFloat16Linear, PackedLinear, supports
from fxopt.passes.packing import (
    LayerToPack,
    LinearPacking,
    float32_condition,
    packing_conditions,
    sentence_on,
    with_activation_behind,
)


class CastLinearsToBFloat16(LinearPacking):
    """Replace `act(x W^T + b)` of float32 with the same of `x`, `W` and `b` in bfloat16, and the result in float32.

    A number of bfloat16 has the range of float32 and 8 bits of its precision: `round(x) = x (1 + d)` with
    `|d| <= 2^-9`, about 0.2 %. A product of `n` such pairs is summed in float32, and its error is that of its terms:
    about 0.3 % of a typical sum, more where terms cancel. Errors of the layers add up: 0.1 to 1 % of the largest
    output are usual. So the pass is `APPROXIMATE`, and runs on request alone: `fxopt.optimize(level="approximate")`
    asks for it, and reports the error.

    It pays because a weight has half the bytes, which is most of the time where few rows read it, and because a
    processor with AVX512-BF16 or AMX multiplies 2 to 16 times the numbers at once. The parameters stay as they are, in
    float32; a packed copy in bfloat16 stands beside them, half their size. It is for inference, as `PackLinears` is.

    >>> import torch, fxopt
    >>> model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU()).eval()
    >>> gm = fxopt.capture(model, (torch.rand(2, 8),))
    >>> fxopt.CastLinearsToBFloat16()(gm).get_submodule("0")
    BFloat16Linear(in_features=8, out_features=16, bias=True, activation=gelu)
    >>> fxopt.CastLinearsToBFloat16()(gm, reverse=True).get_submodule("0")
    Linear(in_features=8, out_features=16, bias=True)
    """

    label = "Linears in bfloat16"
    needs = "a Linear of float32 on a CPU"

    def _conditions(self, layer: LinearLayer, index: GraphIndex) -> Conditions[LayerToPack]:
        yield from packing_conditions(layer, nn.Linear, index)
        yield float32_condition(layer)
        yield supports(torch.bfloat16) or Unmet(
            "this processor has no instructions for bfloat16", actual="none", needed="AVX512 or AMX"
        )
        return with_activation_behind(LayerToPack(layer.node, layer), index, reshape_between=True)

    def exactness(self, match: LayerToPack) -> Exactness:
        return Exactness.APPROXIMATE

    def explain(self, match: LayerToPack) -> str:
        size = match.layer.weight.numel() * 2 / 1e6
        return sentence_on(match, f"multiplies in bfloat16, with a copy of its weights ({size:.3g} MB more)")

    def _packed(self, match: LayerToPack, *, training: bool) -> PackedLinear:
        return BFloat16Linear(match.layer.weight, match.layer.bias, match.activation, training=training)
