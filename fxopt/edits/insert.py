"""Insert a module behind a node, before one of its users or all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn
from torch.fx import Node
from torch.fx.node import map_arg

from fxopt.core import Conditions, GraphIndex, Rewriter, Unmet
from fxopt.edits.catalog import built, new_module, passes_through
from fxopt.edits.draft import Draft, Step
from fxopt.edits.edit import Edit
from fxopt.edits.propagation import Outcome
from fxopt.graph.marks import made_by
from fxopt.graph.nodes import module_stack_of


@dataclass(frozen=True, eq=False)
class Insert(Edit):
    """Let the users of a node read the result of a module on it.

    >>> import torch, fxopt
    >>> gm = fxopt.capture(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh()), (torch.rand(3, 2),))
    >>> [node.name for node in Insert("_0", "Dropout(p=0.1)")(gm).graph.nodes]
    ['input_1', '_0', 'dropout', '_1', 'output']
    """

    module: str
    """A module of the catalog as Python would write it: ``ReLU``, ``Dropout(p=0.1)``."""
    into: str = ""
    """The name of the one user that is to read it; empty for all users."""

    @property
    def title(self) -> str:
        return f"put {self.module} behind {self.node}" + (f", before {self.into}" if self.into else "")

    def candidates(self, index: GraphIndex) -> Iterator[Node]:
        signature = self.signature
        for node in super().candidates(index):
            if not any(made_by(user, signature) for user in node.users):
                yield node

    def _may_edit(self, node: Node) -> bool:
        return node.op == "placeholder"

    def draft(self, node: Node, index: GraphIndex) -> Conditions[Draft]:
        module = built(self.module)
        if isinstance(module, Unmet):
            yield module
            return {}
        names = ", ".join(user.name for user in node.users)
        yield bool(node.users) or Unmet(
            f"nobody reads {node.name}", "choose a node that is read", actual="no user", needed="a user"
        )
        yield (
            not self.into
            or index.nodes.get(self.into) in node.users
            or Unmet(f"{self.into} does not read {node.name}", f"choose one of {names}", actual=self.into, needed=names)
        )
        made = Step(f"the {_name(self.module)}", module_for(module, index), (node,), {})
        return {user: Step.reading(user, node, made, index) for user in self._users(node)}

    def do(self, node: Node, outcome: Outcome, rewriter: Rewriter) -> None:
        users = self._users(node)
        path = rewriter.free_path(_container_of(node, rewriter.index) + _name(self.module))
        rewriter.set_module(path, module_for(new_module(self.module), rewriter.index))
        made = rewriter.call_module(path, (node,), before=min(users), info=outcome.made, made_from=(node,))
        rewriter.marks_anchor = False  # its computation is as before
        for user in users:
            args, kwargs = map_arg((user.args, user.kwargs), lambda other: made if other is node else other)
            rewriter.set_call(user, user.op, user.target, args, dict(kwargs))

    def is_bitwise(self, node: Node, index: GraphIndex) -> bool:
        return passes_through(module_for(new_module(self.module), index))

    def _users(self, node: Node) -> list[Node]:
        return [user for user in node.users if user.name == (self.into or user.name)]


def module_for(module: nn.Module, index: GraphIndex) -> nn.Module:
    """Return `module`, in training mode if the graph module is."""
    return module if module.training == index.gm.training else type(module).train(module, index.gm.training)


def _name(spec: str) -> str:
    """Return a name for a module of the catalog: ``leaky_relu`` for ``LeakyReLU(negative_slope=0.1)``.

    >>> [_name(spec) for spec in ("LeakyReLU(negative_slope=0.1)", "AvgPool2d(2)", "GELU", "LogSoftmax(dim=1)")]
    ['leaky_relu', 'avg_pool2d', 'gelu', 'log_softmax']
    """
    kind = spec.strip().partition("(")[0].replace("LU", "lu")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind).lower()


def _container_of(node: Node, index: GraphIndex) -> str:
    """Return the path of the module that makes the call, if modules can be put into it; with a dot behind it."""
    for path, _ in reversed(module_stack_of(node)):
        if type(index.module_at(path)) is nn.Module:
            return f"{path}."
    return ""
