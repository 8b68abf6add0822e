"""Transformations that edit the graph by hand, with no rewriter and no reverse of their own, as users write them."""

import copy
import operator

import torch
from torch import nn
from torch.fx import GraphModule

from fxopt import Transformation


class DoubleInsteadOfSum(Transformation):
    """`x + x` becomes `x * 2`, by assignment to the node."""

    preserves_computation = True

    def transform(self, graph_module: GraphModule) -> GraphModule:
        for node in graph_module.graph.nodes:
            if node.target is operator.add and len(set(node.args)) == 1:
                node.target, node.args = operator.mul, (node.args[0], 2)
                self.mark_as_transformed(node)
        return graph_module


class CopyOfInput(Transformation):
    """Every linear layer reads its input through a new identity module."""

    preserves_computation = True

    def transform(self, graph_module: GraphModule) -> GraphModule:
        graph = graph_module.graph
        for node in list(graph.nodes):
            if node.op == "call_module" and isinstance(graph_module.get_submodule(node.target), nn.Linear):
                name = f"identity_of_{node.name}"
                if node.args and not hasattr(graph_module, name):
                    graph_module.add_module(name, nn.Identity())
                    with graph.inserting_before(node):
                        node.args = (graph.call_module(name, (node.args[0],)),)
        return graph_module


class OtherWeights(Transformation):
    """The first linear layer is replaced by a copy of it, under the same name."""

    preserves_computation = True

    def transform(self, graph_module: GraphModule) -> GraphModule:
        for node in graph_module.graph.nodes:
            if node.op == "call_module" and type(graph_module.get_submodule(node.target)) is nn.Linear:
                parent, _, name = node.target.rpartition(".")
                owner = graph_module.get_submodule(parent)
                setattr(owner, name, copy.deepcopy(getattr(owner, name)))
                break
        return graph_module


class WithoutDeadSums(Transformation):
    """Sums that nobody reads go, and so do modules that nobody calls."""

    preserves_computation = True

    def transform(self, graph_module: GraphModule) -> GraphModule:
        for node in reversed(graph_module.graph.nodes):
            if node.target is operator.add and not node.users:
                graph_module.graph.erase_node(node)
        graph_module.delete_all_unused_submodules()
        return graph_module


class TanhAsMethod(Transformation):
    """`torch.tanh(x)` becomes `x.tanh()`: a new node in place of an old one."""

    preserves_computation = True

    def transform(self, graph_module: GraphModule) -> GraphModule:
        graph = graph_module.graph
        for node in list(graph.nodes):
            if node.target is torch.tanh and not node.kwargs:
                with graph.inserting_after(node):
                    new = graph.call_method("tanh", node.args)
                node.replace_all_uses_with(new)
                graph.erase_node(node)
        return graph_module


class FailsHalfway(Transformation):
    """Changes the graph and the modules, then fails."""

    def transform(self, graph_module: GraphModule) -> GraphModule:
        graph_module.add_module("left_behind", nn.Linear(2, 2))
        last = next(iter(reversed(graph_module.graph.nodes)))
        with graph_module.graph.inserting_before(last):
            graph_module.graph.call_function(torch.zeros, (1,))
        last.meta["touched"] = True
        raise ZeroDivisionError("on purpose")


HANDWRITTEN = (DoubleInsteadOfSum, CopyOfInput, OtherWeights, WithoutDeadSums, TanhAsMethod)
