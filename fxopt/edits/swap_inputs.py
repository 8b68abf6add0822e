"""Swap two arguments of a call."""

from __future__ import annotations

from dataclasses import dataclass

from torch.fx import Node

from fxopt.core import Conditions, GraphIndex, Rewriter, Unmet
from fxopt.edits.draft import Draft, Step
from fxopt.edits.edit import Edit
from fxopt.edits.place import NoSuchPlaceError, is_same, value_at, with_value
from fxopt.edits.propagation import Outcome


@dataclass(frozen=True, eq=False)
class SwapInputs(Edit):
    """Let two arguments of a call change places.

    >>> import torch, fxopt
    >>> class Difference(torch.nn.Module):
    ...     def forward(self, x, y):
    ...         return x - y
    >>> gm = fxopt.capture(Difference(), (torch.rand(2, 3), torch.rand(2, 3)))
    >>> print(SwapInputs("sub", "args[0]", "args[1]")(gm).code.strip().splitlines()[-2].strip())
    sub = y - x;  y = x = None
    """

    a: str
    """The place of one of them in the call: ``args[0]``."""
    b: str
    """The place of the other."""

    @property
    def title(self) -> str:
        return f"swap {self.a} and {self.b} of {self.node}"

    def draft(self, node: Node, index: GraphIndex) -> Conditions[Draft]:
        try:
            one, other = value_at(node, self.a), value_at(node, self.b)
        except NoSuchPlaceError as error:
            yield Unmet(str(error), "choose two of these", actual="nothing there", needed="two arguments")
            return {}
        yield (
            isinstance(one, Node)
            or isinstance(other, Node)
            or Unmet(
                f"{self.a} and {self.b} of {node.name} are both constants",
                "set the arguments instead",
                actual=f"{one!r} and {other!r}",
                needed="the result of a node",
            )
        )
        yield (one is not other and not is_same(one, other)) or Unmet(
            f"{self.a} and {self.b} of {node.name} are the same",
            "choose two that differ",
            actual=f"{one} twice",
            needed="two different ones",
        )
        args, kwargs = with_value(node, {self.a: other, self.b: one})
        return {node: Step.of(node, index, args, kwargs)}

    def do(self, node: Node, outcome: Outcome, rewriter: Rewriter) -> None:
        one, other = value_at(node, self.a), value_at(node, self.b)
        rewriter.set_call(node, node.op, node.target, *with_value(node, {self.a: other, self.b: one}))
