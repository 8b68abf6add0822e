"""A graph in a few figures: its nodes, its matrix products, and its calls by kind."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from torch.fx import GraphModule, Node

from fxopt.graph.nodes import module_of, operation_name
from fxopt.graph.operator_table import ATTENTION, CONVOLUTIONS, PRODUCTS
from fxopt.view.kinds import KINDS, kind_of

_MODULES = re.compile(r".*Linear|Conv1D|_ConvNd|PackedConv[123]d|Bilinear|MultiheadAttention|RNNBase|RNNCellBase")
_PRODUCTS = PRODUCTS | CONVOLUTIONS | ATTENTION
_PACKED = re.compile(r"(linear|convolution|convolution_transpose)_pointwise(_\w+)?")


@dataclass(frozen=True)
class Summary:
    """The counts of a graph."""

    nodes: int
    products: int
    """Calls that multiply matrices: linear layers, convolutions, products and attention. An attention counts once."""
    calls: Mapping[str, int]
    """Calls by kind, in the words of `fxopt.view.kinds.KINDS`; the most frequent first."""


def summary_of(gm: GraphModule) -> Summary:
    """Count the nodes and calls of a graph.

    >>> import torch
    >>> summary_of(torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()))).products
    1
    """
    calls = [node for node in gm.graph.nodes if node.op.startswith("call_")]
    kinds = Counter(KINDS[kind_of(node)] for node in calls)
    return Summary(len(gm.graph.nodes), sum(map(is_product, calls)), dict(kinds.most_common()))


def is_product(node: Node) -> bool:
    """Return whether a call multiplies matrices."""
    module = module_of(node)
    if module is not None:
        return any(_MODULES.fullmatch(base.__name__) for base in type(module).__mro__)
    name = operation_name(node).strip("_")
    return name in _PRODUCTS or _PACKED.fullmatch(name) is not None
