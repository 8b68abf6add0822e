"""Linear layers multiply integers of 8 bits: a quarter of the bytes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from torch import nn
from torch.fx import Node

from fxopt.core import (
    Conditions,
    Exactness,
    GraphIndex,
    LinearLayer,
    Unmet,
)
from fxopt.errors import ArgumentError
from fxopt.graph.marks import place_of
from fxopt.packed import Int8Linear, PackedLinear, multiplies_int8
from fxopt.packed.int8 import MOST_COLUMNS, Span
from fxopt.passes.packing import (
    LayerToPack,
    LinearPacking,
    float32_condition,
    packing_conditions,
    sentence_on,
    with_activation_behind,
)


class QuantizeLinears(LinearPacking):
    """Replace `act(x W^T + b)` of float32 with `act(s t (q_x - z) q_W^T + b)`, of integers `q_x`, `q_W` of 8 bits.

    Each row of `W` is `s q_W`, with `s` a 127th of its largest absolute value; `x` is `t (q_x - z)`, with `t` a 255th
    of the span of its numbers. Both are rounded, by at most half a step, so the result of a layer is off by about 1 %
    of the largest, and by more where a few numbers of `x` are much larger than the rest, as in the inner layers of
    language models. Errors add up: a MiniLM with its trained weights ends 7 to 14 % off (`docs/approximate.md`). So
    the pass is `APPROXIMATE`, and runs on request alone. Measure the error on your weights and inputs
    (`fxopt.evidence.compare_outputs`) before you use it.

    It pays because a weight has a quarter of the bytes, and a processor with VNNI multiplies four times the numbers at
    once; without VNNI it has no sites, since sums would be cut. The parameters stay as they are, in float32; a packed
    copy of integers stands beside them, a quarter of their size. It is for inference, as `PackLinears` is.

    Args:
        spans: the least and the largest number of the input of each linear, by the name of its node, as
            `fxopt.evidence.spans_of` measures them over inputs of yours: static quantization. Numbers beyond are cut.
            A linear that another pass has changed since has no span, for its input may be another one, as behind a
            norm that was folded into it: measure in the graph as it is then, and anew after an edit by hand. Without
            spans, quantization is dynamic: each call looks for the span of its own input, all rows together, so that
            the result of one row depends a little on the others.

    Raises:
        ArgumentError: a span is no pair of finite numbers in order.

    >>> import torch, fxopt
    >>> model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU()).eval()
    >>> gm = fxopt.capture(model, (torch.rand(2, 8),))
    >>> dynamic = fxopt.QuantizeLinears()
    >>> [match.site for match in dynamic.scan(gm).matches]
    ['_0']
    >>> static = fxopt.QuantizeLinears(fxopt.evidence.spans_of(gm, [torch.rand(2, 8), torch.rand(2, 8)]))
    >>> [match.site for match in static.scan(gm).matches]
    ['_0']
    """

    label = "Quantize linears"
    needs = "a Linear of float32 on a CPU"

    def __init__(self, spans: Mapping[str, Span] | Iterable[tuple[str, Span]] | None = None) -> None:
        self.spans = (
            None if spans is None else tuple(sorted((name, _span(name, one)) for name, one in dict(spans).items()))
        )

    def _conditions(self, layer: LinearLayer, index: GraphIndex) -> Conditions[LayerToPack]:
        yield from packing_conditions(layer, nn.Linear, index)
        yield float32_condition(layer)
        yield multiplies_int8() or Unmet(
            "this processor does not multiply integers of 8 bits exactly", actual="none", needed="VNNI"
        )
        columns = layer.weight.shape[1]
        yield columns <= MOST_COLUMNS or Unmet(
            f"a sum over the {columns} columns of {layer.name} may leave 32 bits",
            actual=str(columns),
            needed=f"at most {MOST_COLUMNS}",
        )
        yield (
            self.spans is None
            or self._place(layer.node) in dict(self.spans)
            or Unmet(
                f"no span of the input of {layer.name}, as it is in this graph, is given",
                remedy="measure it here: fxopt.evidence.spans_of(gm, inputs)",
                actual="none",
                needed="its least and its largest number",
            )
        )
        return with_activation_behind(LayerToPack(layer.node, layer), index, reshape_between=True)

    def exactness(self, match: LayerToPack) -> Exactness:
        return Exactness.APPROXIMATE

    def explain(self, match: LayerToPack) -> str:
        size = match.layer.weight.numel() / 1e6
        span = self._span_of(match)
        where = "of each call" if span is None else f"from {span[0]:.3g} to {span[1]:.3g}"
        return sentence_on(
            match,
            f"multiplies integers of 8 bits, by the span {where}, with a copy of its weights ({size:.3g} MB more)",
        )

    def _packed(self, match: LayerToPack, *, training: bool) -> PackedLinear:
        layer, span = match.layer, self._span_of(match)
        return Int8Linear(layer.weight, layer.bias, match.activation, span=span, training=training)

    def _span_of(self, match: LayerToPack) -> Span | None:
        return None if self.spans is None else dict(self.spans)[self._place(match.anchor)]

    def _place(self, node: Node) -> str:
        return place_of(node, without=self.signature)


def _span(name: str, ends: Span) -> Span:
    low, high = map(float, ends)
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise ArgumentError(
            f"QuantizeLinears(spans=...) has ({low:g}, {high:g}) for {name}: give two finite numbers in order"
        )
    return low, high
