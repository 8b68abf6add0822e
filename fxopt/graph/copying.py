"""Copies of modules and graph modules that share their weights."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn
from torch.fx import Graph, GraphModule

from fxopt.errors import ArgumentError, expect


def shallow_copy(module: nn.Module) -> Any:
    """Return a module of the same type that shares everything with `module`, but can be changed without it."""
    new = type(module).__new__(type(module))
    for name, value in module.__dict__.items():
        new.__dict__[name] = value.copy() if isinstance(value, dict | list | set) else value
    return new


def with_tensors(module: nn.Module, **tensors: torch.Tensor | None) -> Any:
    """Return a copy of `module` that shares everything with it except the parameters named here.

    All initialization is skipped. A tensor becomes an `nn.Parameter` with its ``requires_grad``; the original module is
    left as it is.

    Raises:
        ArgumentError: `module` is no module, has no such parameter, or a value is no tensor.
    """
    expect(module, nn.Module, "fxopt.with_tensors", "a torch.nn.Module")
    new = shallow_copy(module)
    for name, tensor in tensors.items():
        if name not in module._parameters:
            has = ", ".join(module._parameters) or "none"
            raise ArgumentError(f"fxopt.with_tensors: {type(module).__name__} has no parameter {name}; it has {has}")
        expect(tensor, torch.Tensor | None, f"fxopt.with_tensors({name}=...)", "a tensor or None")
        if tensor is None or isinstance(tensor, nn.Parameter):
            new._parameters[name] = tensor
        else:
            new._parameters[name] = nn.Parameter(tensor, requires_grad=tensor.requires_grad)
    return new


def shared_copy(gm: GraphModule, *, compiled: bool = True) -> GraphModule:
    """Return a copy of `gm` with a graph and a module tree of its own, sharing the called modules and all tensors.

    Rewriting the copy leaves `gm` as it is, because a rewrite replaces modules and never assigns into one. Node names
    and metadata are kept, and so are all patches that can be reversed. Takes about 11 us a node, and no memory for
    weights. To generate its code takes as long again; if it is to be rewritten first, ``compiled=False`` leaves that to
    a later ``recompile()``, before which it must not be called.
    """
    graph = copied_graph(gm.graph)
    empty = Graph()
    empty.output(None)
    new = GraphModule(nn.Module(), empty, class_name=type(gm).__name__)
    for key, value in gm.__dict__.items():
        if key not in (*TABLES, "_graph", "_code", "meta"):
            new.__dict__[key] = copy.copy(value) if isinstance(value, dict | list | set) else value
    new.meta = dict(gm.meta)
    copy_tree(gm, new, {})
    if compiled:
        new.graph = graph
    else:
        new._graph, graph.owning_module = graph, new
    return new


def copied_graph(graph: Graph) -> Graph:
    """Return a copy of `graph` with the names and metadata of its nodes.

    Unlike `copy.deepcopy`, it leaves the tree specs of exported programs as they are, which torch warns of copying,
    and an output node of any name.
    """
    copied = Graph(tracer_cls=graph._tracer_cls)
    result = copied.graph_copy(graph, {}, return_output_node=True)
    if isinstance(result, tuple):
        copied.output(result[0], result[1].type)
    copied._codegen = copy.copy(graph._codegen)
    for new, old in zip(copied.nodes, graph.nodes):
        new.meta = dict(old.meta)
        if new.name != old.name:
            new.name = old.name
            copied._graph_namespace._used_names.add(old.name)
    return copied


TABLES = ("_modules", "_parameters", "_buffers")
"""The tables in which a module registers its members."""


def copy_tree(old: nn.Module, new: nn.Module, containers: dict[int, nn.Module]) -> None:
    """Give `new` the tensors and children of `old`; plain containers, which rewrites change, are copied."""
    new._parameters.update(old._parameters)
    new._buffers.update(old._buffers)
    for name, child in old._modules.items():
        if type(child) is nn.Module:
            new._modules[name] = _container(child, containers)
        else:
            copied = getattr(child, "shared_copy", None)
            new._modules[name] = child if copied is None else copied(new)


def _container(old: nn.Module, containers: dict[int, nn.Module]) -> nn.Module:
    if id(old) not in containers:
        containers[id(old)] = container = shallow_copy(old)
        copy_tree(old, container, containers)
    return containers[id(old)]


def own(module: nn.Module) -> nn.Module:
    """Return the `module` that a graph module may own: of a plain container, which rewrites change, a copy."""
    return _container(module, {}) if type(module) is nn.Module else module
