"""Replace an input of a call by another node."""

from __future__ import annotations

from dataclasses import dataclass

from torch.fx import Node

from fxopt.core import Conditions, GraphIndex, Rewriter, Unmet
from fxopt.edits.draft import Draft, Step
from fxopt.edits.edit import Edit
from fxopt.edits.place import NoSuchPlaceError, value_at, with_value
from fxopt.edits.propagation import Outcome
from fxopt.graph.nodes import inputs_of


@dataclass(frozen=True, eq=False)
class Rewire(Edit):
    """Let a call read another node.

    >>> import torch, fxopt
    >>> class Residual(torch.nn.Module):
    ...     def forward(self, x):
    ...         y = x * 2
    ...         return y.relu() + x
    >>> gm = fxopt.capture(Residual(), (torch.rand(2, 3),))
    >>> print(Rewire("add", "args[1]", to="mul")(gm).code.strip().splitlines()[-2].strip())
    add = relu + mul;  relu = mul = None
    """

    at: str
    """The place of the input in the call: ``args[0]``, ``kwargs['mask']``."""
    to: str
    """The name of the node to read, which comes earlier in the graph."""

    @property
    def title(self) -> str:
        return f"rewire {self.at} of {self.node} to {self.to}"

    def _may_edit(self, node: Node) -> bool:
        return node.op == "output"

    def draft(self, node: Node, index: GraphIndex) -> Conditions[Draft]:
        try:
            old = value_at(node, self.at)
        except NoSuchPlaceError as error:
            yield Unmet(str(error), "choose one of these", actual="nothing there", needed="an input")
            return {}
        yield isinstance(old, Node) or Unmet(
            f"{self.at} of {node.name} is the constant {old!r}",
            "set the argument instead",
            actual=repr(old),
            needed="the result of a node",
        )
        new = index.nodes.get(self.to)
        if new is None:
            yield Unmet(f"there is no node {self.to}", "choose a node of the graph", actual="none", needed="a node")
            return {}
        yield new is not old or Unmet(
            f"{self.at} of {node.name} is {new} already", "choose another node", actual=str(new), needed="another node"
        )
        yield from earlier_conditions(new, node)
        args, kwargs = with_value(node, {self.at: new})
        return {node: Step.of(node, index, args, kwargs)}

    def before(self, node: Node) -> str:
        return str(value_at(node, self.at))

    def do(self, node: Node, outcome: Outcome, rewriter: Rewriter) -> None:
        new = rewriter.index.nodes[self.to]
        rewriter.set_call(node, node.op, node.target, *with_value(node, {self.at: new}))


def earlier_conditions(new: Node, node: Node) -> Conditions[None]:
    """Check that `new` is computed before `node`."""
    yield new.op != "output" or Unmet(
        f"{new.name} is the output of the model", "choose a node that makes a call", actual="output", needed="a result"
    )
    yield (new is not node and not new > node) or Unmet(
        f"{new.name} is computed from {node.name}, so this would be a cycle"
        if new is node or _reads(new, node)
        else f"{new.name} comes later in the graph than {node.name}",
        "choose a node that comes earlier",
        actual=f"after {node.name}",
        needed=f"before {node.name}",
    )


def _reads(node: Node, source: Node) -> bool:
    """Check that `node` depends on `source`, directly or through other nodes."""
    todo, seen = [node], set[Node]()
    while todo:
        current = todo.pop()
        if current is source:
            return True
        if current not in seen and current > source:
            seen.add(current)
            todo.extend(inputs_of(current))
    return False
