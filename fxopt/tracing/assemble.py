"""From a finished recording to a graph module that holds only plain data of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.fx import Graph, GraphModule, Node
from torch.fx.graph_module import _USER_PRESERVED_ATTRIBUTES_KEY

from fxopt.tracing.node_values import finished
from fxopt.tracing.parameter_names import keep_apart
from fxopt.tracing.tape import Tape


def graph_module_of(tape: Tape) -> GraphModule:
    """Return the graph module of a recording, sharing its leaf modules and tensors with the model."""
    remove_unused(tape.graph, tape.effects)
    return _assembled(tape)


def partial_graph_module_of(tape: Tape) -> GraphModule | None:
    """Return the part that was recorded before the model stopped; the last node is its output."""
    last = next((node for node in reversed(tape.graph.nodes) if node in tape.values), None)
    if last is None:
        return None
    tape.graph.output(last)
    return _assembled(tape)


def _assembled(tape: Tape) -> GraphModule:
    names = tape.size_names()
    for node in tape.graph.nodes:
        info = finished(tape.values.get(node), names.text if names is not None else int)
        if info is not None:
            node.meta["tensor_info"] = info
    original = {target: path for path, target in tape.sources.renamed.items()}
    values = {
        target: tape.sources.extras[target]
        if target in tape.sources.extras
        else at_path(tape.model, original.get(target, target))
        for target in targets_of(tape.graph)
    }
    return assembled(tape.graph, tape.model, values)


def targets_of(graph: Graph) -> dict[str, None]:
    """Return the targets that a graph module looks up among its modules and tensors, in the order of the nodes."""
    return {str(node.target): None for node in graph.nodes if node.op in ("call_module", "get_attr")}


def assembled(graph: Graph, model: nn.Module, values: Mapping[str, Any]) -> GraphModule:
    """Return the graph module of a graph of `model`.

    Args:
        values: the modules and tensors, by target.
    """
    graph.lint()
    keep_apart(graph)
    gm = GraphModule(_Root(model, values), graph, class_name=type(model).__name__)
    adopt(gm, model)
    return gm


class _Root(nn.Module):
    """Stands in for the model where the graph module looks up its targets: with the extra objects, too."""

    def __init__(self, model: nn.Module, values: Mapping[str, Any]) -> None:
        super().__init__()
        self._shared = set(map(id, model.modules()))
        for target, value in values.items():
            self._put(target, value)

    def _put(self, target: str, value: Any) -> None:
        *path, name = target.split(".")
        owner: Any = self
        for part in path:
            inner = owner.__dict__.setdefault(part, nn.Module())
            if id(inner) in self._shared:
                return  # inside a leaf, which is there as a whole
            owner = inner
        # past __setattr__, which would register tensors and modules
        owner.__dict__[name] = value


def at_path(model: nn.Module, path: str) -> Any:
    value: Any = model
    for name in path.split("."):
        value = getattr(value, name)
    return value


def adopt(gm: GraphModule, model: nn.Module) -> None:
    """Give `gm` and its containers the model's properties: mode, persistence of buffers, config and device."""
    models = dict(model.named_modules())
    shared = set(map(id, model.modules()))
    for path, module in gm.named_modules():
        if id(module) in shared:
            continue
        counterpart = models.get(path)
        module.training = counterpart.training if counterpart is not None else model.training
        kept = set() if counterpart is None else counterpart._buffers.keys()
        temporary = set() if counterpart is None else counterpart._non_persistent_buffers_set
        # only buffers of the model may become part of the state dict
        module._non_persistent_buffers_set = {name for name in module._buffers if name in temporary or name not in kept}
    told = {name: getattr(model, name, None) for name in ("config", "device")}
    told = {name: value for name, value in told.items() if name == "config" or isinstance(value, torch.device)}
    if told["config"] is not None:
        for name, value in told.items():
            setattr(gm, name, value)
        gm.meta[_USER_PRESERVED_ATTRIBUTES_KEY] = told


def remove_unused(graph: Graph, effects: set[Node]) -> None:
    """Remove unused nodes, except those that write in place, draw random numbers or are modules.

    `Graph.eliminate_dead_code` would remove in-place operations whose result is unused.
    """
    for node in reversed(graph.nodes):
        if node.users or node.op in ("placeholder", "output", "call_module") or node in effects:
            continue
        graph.erase_node(node)
