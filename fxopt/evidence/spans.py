"""The span of the numbers of each node: its least and its largest one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule

from fxopt.evidence.divergence import values_of
from fxopt.models import as_inputs


def spans_of(gm: GraphModule, inputs: Iterable[Any]) -> dict[str, tuple[float, float]]:
    """Return the least and the largest number of each node whose value is a tensor of finite floating-point numbers.

    Static quantization needs them: `fxopt.QuantizeLinears`. They hold for inputs like these: take real ones.

    Args:
        gm: is run once for each of the inputs, and stays as it is.
        inputs: examples, each a tuple of positional arguments, a mapping of keyword arguments, or one tensor.

    Raises:
        EvidenceError: the graph fails for one of the inputs.
    """
    spans: dict[str, tuple[float, float]] = {}
    for one in inputs:
        for name, span in values_of(gm, as_inputs(one), _span).items():
            if span is not None:
                low, high = spans.get(name, span)
                spans[name] = min(low, span[0]), max(high, span[1])
    return {name: span for name, span in spans.items() if all(map(math.isfinite, span))}


def _span(value: Any) -> tuple[float, float] | None:
    if not isinstance(value, Tensor) or not value.is_floating_point() or not value.numel():
        return None
    low, high = (float(end) for end in torch.aminmax(value.detach()))
    return (low, high) if not math.isnan(low) else (-math.inf, math.inf)
