"""Replace the module that a node calls."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn
from torch.fx import Node

from fxopt.core import Conditions, GraphIndex, Rewriter, Unmet, target_name
from fxopt.edits.catalog import built, new_module, passes_through
from fxopt.edits.draft import Draft, Step
from fxopt.edits.edit import Edit
from fxopt.edits.insert import module_for
from fxopt.edits.propagation import Outcome
from fxopt.graph.nodes import module_of


@dataclass(frozen=True, eq=False)
class ReplaceModule(Edit):
    """Call another module in the place of the one that is called.

    Other calls of the old module keep it.

    >>> import torch, fxopt
    >>> gm = fxopt.capture(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()), (torch.rand(3, 2),))
    >>> ReplaceModule("_1", "GELU")(gm).get_submodule("1")
    GELU(approximate='none')
    """

    module: str
    """A module of the catalog as Python would write it: ``ReLU``, ``Dropout(p=0.1)``."""

    @property
    def title(self) -> str:
        return f"let {self.node} call {self.module}"

    def draft(self, node: Node, index: GraphIndex) -> Conditions[Draft]:
        old = index.module_of(node)
        if old is None:
            yield Unmet(
                f"{node.name} calls {target_name(node)}, which is not a module",
                "give it another target instead",
                actual=node.op,
                needed="a call of a module",
            )
            return {}
        module = built(self.module)
        if isinstance(module, Unmet):
            yield module
            return {}
        yield (
            type(old) is not type(module)
            or old.extra_repr() != module.extra_repr()
            or Unmet(
                f"{node.target} is a {type(old).__name__} already",
                "choose another module",
                actual=repr(old),
                needed="another module",
            )
        )
        return {node: Step(node.name, module_for(module, index), node.args, node.kwargs)}

    def before(self, node: Node) -> str:
        return repr(module_of(node))

    def do(self, node: Node, outcome: Outcome, rewriter: Rewriter) -> None:
        index, path = rewriter.index, str(node.target)
        module = module_for(new_module(self.module), index)
        if _is_only_here(node, path, index):
            rewriter.set_module(path, module, called_by=node)
            return
        parent = path.rpartition(".")[0]
        prefix = f"{parent}." if type(index.module_at(parent)) is nn.Module else ""
        new = rewriter.free_path(prefix + path.rpartition(".")[2])
        rewriter.set_module(new, module)
        rewriter.set_call(node, "call_module", new, node.args, dict(node.kwargs))
        rewriter.remove_unused_module(path)

    def is_bitwise(self, node: Node, index: GraphIndex) -> bool:
        old = index.module_of(node)
        return old is not None and passes_through(old) and passes_through(module_for(new_module(self.module), index))


def _is_only_here(node: Node, path: str, index: GraphIndex) -> bool:
    """Return whether the module at `path` is read here only and belongs to the graph module."""
    module, parent = index.gm.get_submodule(path), index.module_at(path.rpartition(".")[0])
    own = parent is index.gm or type(parent) is nn.Module
    return own and len(index.calls_of(module)) == 1 and len(index.paths_of(module)) == 1 and not index.reads_of(path)
