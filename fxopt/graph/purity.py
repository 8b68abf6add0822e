"""Pure calls: those whose value follows from their arguments alone, and that do nothing else."""

from __future__ import annotations

import operator
from collections.abc import Container

import torch
from torch import nn
from torch.fx import Node

from fxopt.graph.index import GraphIndex
from fxopt.graph.metadata import is_metadata
from fxopt.graph.nodes import inputs_of, is_tensor, operation_name
from fxopt.graph.operator_table import CASTS, SEVERAL_PARTS, UNFILLED, VIEWS, VIEWS_OR_COPIES
from fxopt.graph.operators import calls_torchs_own

_CASTS = CASTS | {"long", "int", "short", "char", "byte", "bool"}
_GIVE_MEMORY_ON = VIEWS | VIEWS_OR_COPIES | SEVERAL_PARTS | _CASTS | {"contiguous"}
"""The result follows from the arguments alone, though it may be one of them or a view of one."""

_OF_NUMBERS = frozenset({"getitem", "add", "sub", "mul", "floor_divide", "div", "remainder", "neg", "abs", "pow"})
"""On sizes they give sizes."""


def is_pure(node: Node, index: GraphIndex) -> bool:
    """Return whether the tensor that `node` gives follows from its arguments alone, and nothing else happens."""
    effects = index.effects(node)
    if effects.written or effects.opaque:
        return False
    if node.op == "call_module":
        module = index.module_of(node)
        return effects.returns_new_memory and not (isinstance(module, nn.Embedding) and module.max_norm is not None)
    name = operation_name(node)
    if name in UNFILLED or not (effects.returns_new_memory or name in _GIVE_MEMORY_ON):
        return False
    if node.target is operator.getitem or name == "getitem":
        return True
    packet = getattr(torch.ops.aten, name, None) if name.isidentifier() else None
    if packet is None:
        return name in _CASTS  # `.float()` is a method alone
    overloads = [getattr(packet, one) for one in packet.overloads()]
    return not any(torch.Tag.nondeterministic_seeded in one.tags for one in overloads)


def is_size(node: Node, sizes: Container[Node]) -> bool:
    """Return whether `node` gives another property of a tensor than its numbers, or computes with `sizes` alone."""
    if node.op not in ("call_function", "call_method") or is_tensor(node) or not calls_torchs_own(node):
        return False
    read = inputs_of(node)
    on_sizes = operation_name(node) in _OF_NUMBERS and bool(read) and all(one in sizes for one in read)
    return on_sizes or is_metadata(node)
