"""What a node costs in weights, for bars in a picture. What several nodes share is told at each that reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fxopt.core.graph import module_of
from fxopt.view.visible import VisibleGraph


def parameters_of(gm: GraphModule) -> Mapping[str, frozenset[tuple[int, int]]]:
    """The parameters that each node reads, by its name, as pairs of an identity and a number of elements."""
    found = {}
    for node in gm.graph.nodes:
        tensors = _tensors(gm, node)
        if tensors:
            found[node.name] = frozenset((id(tensor), tensor.numel()) for tensor in tensors)
    return found


def _tensors(gm: GraphModule, node: Node) -> list[torch.Tensor]:
    module = module_of(node)
    if module is not None:
        return list(module.parameters())
    if node.op != "get_attr":
        return []
    value: Any = gm
    for name in str(node.target).split("."):
        value = getattr(value, name)
    return [value] if isinstance(value, torch.nn.Parameter) else []


def bars(costs: Mapping[str, frozenset[tuple[int, int]]], graph: VisibleGraph) -> dict[int, tuple[float, str]]:
    """For each box of `graph` with parameters, its share of the largest box, and their number in words.

    A box counts what its nodes share once; so the boxes of a folded picture add up to no more than the model has, but
    for what different boxes share.
    """
    sets: dict[int, set[tuple[int, int]]] = {}
    for name, tensors in costs.items():
        index = graph.find(name)
        if index is not None:
            sets.setdefault(index, set()).update(tensors)
    counts = {index: sum(count for _, count in tensors) for index, tensors in sets.items()}
    most = max(counts.values(), default=0)
    return {
        index: (round(count / most, 3), f"{count:,} parameter{'s' if count != 1 else ''}")
        for index, count in sorted(counts.items())
        if count
    }
