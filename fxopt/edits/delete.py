"""Delete a node; its users read one of its inputs instead."""

from __future__ import annotations

from dataclasses import dataclass

from torch.fx import Node

from fxopt.core import Conditions, GraphIndex, Rewriter, Unmet
from fxopt.edits.catalog import passes_through
from fxopt.edits.draft import Draft, Step
from fxopt.edits.edit import Edit
from fxopt.edits.propagation import Outcome
from fxopt.graph.nodes import inputs_of


@dataclass(frozen=True, eq=False)
class Delete(Edit):
    """Take a node out, and give its users one of its inputs.

    >>> import torch, fxopt
    >>> gm = fxopt.capture(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()), (torch.rand(3, 2),))
    >>> [node.name for node in Delete("_1", users_take="_0")(gm).graph.nodes]
    ['input_1', '_0', 'output']
    """

    users_take: str = ""
    """The name of one of its inputs; empty if the node is unread."""

    @property
    def title(self) -> str:
        return f"delete {self.node}" + (f", its users take {self.users_take}" if self.users_take else "")

    def draft(self, node: Node, index: GraphIndex) -> Conditions[Draft]:
        inputs = ", ".join(other.name for other in inputs_of(node))
        taken = index.nodes.get(self.users_take)
        yield (
            not node.users
            or bool(self.users_take)
            or Unmet(
                f"{node.name} is read by {', '.join(user.name for user in node.users)}",
                f"choose their new input: {inputs}" if inputs else "let them read other nodes first",
                actual=f"{len(node.users)} users",
                needed="no user, or an input for them to take",
            )
        )
        yield (
            not self.users_take
            or taken in inputs_of(node)
            or Unmet(
                f"{self.users_take} is not an input of {node.name}",
                f"choose one of its inputs: {inputs}"
                if inputs
                else "it has none: let its users read other nodes first",
                actual=self.users_take,
                needed=inputs or "an input",
            )
        )
        return {user: Step.reading(user, node, taken, index) for user in node.users if taken is not None}

    def do(self, node: Node, outcome: Outcome, rewriter: Rewriter) -> None:
        if self.users_take and node.users:
            rewriter.replace(node, rewriter.index.nodes[self.users_take])
        else:
            rewriter.erase(node)

    def is_bitwise(self, node: Node, index: GraphIndex) -> bool:
        module = index.module_of(node)
        return module is not None and passes_through(module) and node.args == (index.nodes.get(self.users_take),)
