"""Replace a constant argument of a call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch.fx import Node

from fxopt.core import Conditions, GraphIndex, Rewriter, Unmet
from fxopt.edits.draft import Draft, Step
from fxopt.edits.edit import Edit
from fxopt.edits.place import NoSuchPlaceError, is_plain, is_same, value_at, with_value
from fxopt.edits.propagation import Outcome


@dataclass(frozen=True, eq=False)
class SetArgument(Edit):
    """Give a call another constant.

    >>> import torch, fxopt
    >>> class Scale(torch.nn.Module):
    ...     def forward(self, scores):
    ...         return scores / 8
    >>> gm = fxopt.capture(Scale(), (torch.rand(2, 3),))
    >>> edit = SetArgument("truediv", "args[1]", 2.0)
    >>> print(edit(gm).code.strip().splitlines()[1].strip())
    truediv = scores / 2.0;  scores = None
    >>> print(edit(gm, reverse=True).code.strip().splitlines()[1].strip())
    truediv = scores / 8;  scores = None
    """

    at: str
    """The place of the constant in the call: ``args[1]``, ``kwargs['dim']``, ``args[1][0]``."""
    value: Any
    """A number, text, None, a `torch.dtype`, or lists and tuples of them."""

    @property
    def title(self) -> str:
        return f"set {self.at} of {self.node} to {self.value!r}"

    def draft(self, node: Node, index: GraphIndex) -> Conditions[Draft]:
        yield is_plain(self.value) or Unmet(
            f"{self.value!r} is a {type(self.value).__name__}, and has to be a constant",
            "give a number, text, None, a dtype, or a list of them",
            actual=type(self.value).__name__,
            needed="a constant",
        )
        try:
            old = value_at(node, self.at)
        except NoSuchPlaceError as error:
            yield Unmet(str(error), "choose one of these", actual="nothing there", needed="a constant")
            return {}
        yield (
            node.target is not getattr
            or not str(self.value).startswith("_")
            or Unmet(
                f"{self.value} is a private attribute",
                "choose one without an underscore in front",
                actual=str(self.value),
                needed="a public attribute",
            )
        )
        yield not isinstance(old, Node) or Unmet(
            f"{self.at} of {node.name} is {old}, the result of a node",
            "rewire it to another node instead",
            actual=f"the node {old}",
            needed="a constant",
        )
        yield not is_same(old, self.value) or Unmet(
            f"{self.at} of {node.name} is {old!r} already", "choose another value", repr(old), "another value"
        )
        args, kwargs = with_value(node, {self.at: self.value})
        return {node: Step.of(node, index, args, kwargs)}

    def before(self, node: Node) -> str:
        return repr(value_at(node, self.at))

    def do(self, node: Node, outcome: Outcome, rewriter: Rewriter) -> None:
        rewriter.set_call(node, node.op, node.target, *with_value(node, {self.at: self.value}))
