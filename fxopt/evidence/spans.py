"""The span of the input of each linear layer: its least and its largest number."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from fxopt.core import GraphIndex, LinearLayer, layer_of
from fxopt.errors import ArgumentError
from fxopt.evidence.divergence import reads_of
from fxopt.graph.marks import place_of
from fxopt.models import as_inputs


def spans_of(gm: GraphModule, inputs: Iterable[Any]) -> dict[str, tuple[float, float]]:
    """Return the least and the largest number that each linear layer reads, where all of them are finite.

    Static quantization needs them: `fxopt.QuantizeLinears`. They hold for inputs like these: take real ones.

    Args:
        gm: is run once for each of the inputs, and stays as it is.
        inputs: a list of examples, each a tuple of positional arguments, a mapping of keyword arguments, or one tensor.

    Returns:
        the spans, by the name of the linear's node; a digest stands behind that of one which a pass has changed.

    Raises:
        ArgumentError: `inputs` is one example and no list of them.
        EvidenceError: the graph fails for one of the inputs.
    """
    if isinstance(inputs, Tensor | Mapping):
        raise ArgumentError("spans_of takes a list of examples; this is one: write [inputs]")
    index = GraphIndex(gm)
    layers = (layer_of(node, index) for node in gm.graph.nodes)
    read: dict[Node, Node] = {
        layer.node: layer.input for layer in layers if isinstance(layer, LinearLayer) and layer.input is not None
    }
    spans: dict[str, tuple[float, float]] = {}
    for one in inputs:
        for node, span in reads_of(gm, as_inputs(one), read, _span).items():
            if span is not None:
                place = place_of(node, without="")
                low, high = spans.get(place, span)
                spans[place] = min(low, span[0]), max(high, span[1])
    return {place: span for place, span in spans.items() if all(map(math.isfinite, span))}


def _span(value: Any) -> tuple[float, float] | None:
    if not isinstance(value, Tensor) or not value.is_floating_point() or not value.numel():
        return None
    low, high = (float(end) for end in torch.aminmax(value.detach()))
    return (low, high) if not math.isnan(low) else (-math.inf, math.inf)
