"""The result of a function on a graph module, less all that only looks changed: copies of modules, of metadata."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule, Node

from fxopt.graph.copying import TABLES, copied_graph, copy_tree, shared_copy
from fxopt.graph.tensor_state import same_bytes
from fxopt.recording.containers import same_value
from fxopt.recording.node_changes import SetCall
from fxopt.recording.node_record import Call
from fxopt.recording.parts import only_reads_others


def settled(result: GraphModule, like: GraphModule) -> GraphModule:
    """Return a graph module with the graph, the modules and new metadata of `result`, and all else of `like`.

    Where a module or tensor of `result` equals that of `like` at the same path, bit for bit, it is that of `like`; and
    a node that makes the same call, or that on other nodes, has its metadata. So a function that copies or traces the
    model again has changed only the things that differ now. `result` is left as it is, and the result is not compiled.
    """
    new = shared_copy(like, compiled=False)
    graph = copied_graph(result.graph)
    if type(graph._codegen) is type(like.graph._codegen):
        same = getattr(graph._codegen, "pytree_info", None) == getattr(like.graph._codegen, "pytree_info", None)
        graph._codegen = like.graph._codegen if same else graph._codegen
    new._graph, graph.owning_module = graph, new
    for table in TABLES:
        getattr(new, table).clear()
    new._non_persistent_buffers_set = set(result._non_persistent_buffers_set)
    copy_tree(result, new, {})
    _share(new, like)
    new.meta = {**like.meta, **{key: one for key, one in result.meta.items() if not _is_equal(like.meta.get(key), one)}}
    before = {node.name: node for node in like.graph.nodes}
    for node in graph.nodes:
        if node.name in before:
            _settle(node, before[node.name])
    return new


def _settle(node: Node, before: Node) -> None:
    was, now = Call.of(before), Call.of(node)
    if same_value(vars(was), vars(now)) or only_reads_others(SetCall(node.name, was, now)):
        node.meta, node.type = dict(before.meta), before.type
        return
    for key, value in node.meta.items():
        if _is_equal(before.meta.get(key), value):
            node.meta[key] = before.meta[key]


def _is_equal(a: Any, b: Any) -> bool:
    if isinstance(a, float | complex):
        return same_value(a, b)  # of zeros, the sign counts
    try:
        return type(a) is type(b) and (a == b) is True
    except (TypeError, ValueError, RuntimeError):  # of tensors and arrays, which have no one answer
        return False


def _share(new: nn.Module, like: nn.Module) -> None:
    """Put the members of `like` in the place of equal ones, in `new` and in the containers in it."""
    for table in TABLES:
        members, others = getattr(new, table), getattr(like, table)
        for name, member in members.items():
            other = others.get(name)
            if type(member) is nn.Module and type(other) is nn.Module:
                _share(member, other)
            elif other is not None and member is not None and _is_same(member, other):
                members[name] = other


def _is_same(a: Any, b: Any) -> bool:
    return _is_same_module(a, b) if isinstance(a, nn.Module) else is_same_tensor(a, b)


def _is_same_module(a: nn.Module, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is not type(b) or isinstance(a, GraphModule) or a.__dict__.keys() != b.__dict__.keys():
        return False
    for table in TABLES:
        members, others = getattr(a, table), getattr(b, table)
        if list(members) != list(others) or not all(
            (x is None and y is None) or (x is not None and y is not None and _is_same(x, y))
            for x, y in zip(members.values(), others.values())
        ):
            return False
    plain = (key for key in a.__dict__ if key not in TABLES)
    return all(_is_equal(a.__dict__[key], b.__dict__[key]) for key in plain)


def is_same_tensor(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether two tensors are alike in kind and in every bit, so that -0.0 is another number than 0.0."""
    return a is b or (
        type(a) is type(b)
        and (a.shape, a.dtype, a.device, a.requires_grad) == (b.shape, b.dtype, b.device, b.requires_grad)
        and not (a.is_meta or b.is_meta)
        and same_bytes(a.detach(), b.detach())
    )
