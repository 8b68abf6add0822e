"""Replace the function or method that a node calls by one that takes the same arguments."""

from __future__ import annotations

from dataclasses import dataclass

from torch.fx import Node

from fxopt.core import Conditions, GraphIndex, Rewriter, Unmet, target_name
from fxopt.edits.draft import Draft, Step
from fxopt.edits.edit import Edit
from fxopt.edits.propagation import Outcome
from fxopt.edits.targets import fit_conditions, kwargs_for, target_conditions, target_named


@dataclass(frozen=True, eq=False)
class Retarget(Edit):
    """Call another function or method with the same arguments.

    >>> import torch, fxopt
    >>> class Act(torch.nn.Module):
    ...     def forward(self, x):
    ...         return torch.nn.functional.relu(x)
    >>> gm = fxopt.capture(Act(), (torch.rand(2, 3),))
    >>> print(Retarget("relu", "F.gelu")(gm).code.strip().splitlines()[-2].strip())
    relu = torch._C._nn.gelu(x);  x = None
    """

    target: str
    """``F.gelu``, ``torch.sub``, ``operator.mul``, ``torch.Tensor.tanh``; of a method, its name will do."""

    @property
    def title(self) -> str:
        return f"let {self.node} call {self.target}"

    def draft(self, node: Node, index: GraphIndex) -> Conditions[Draft]:
        yield node.op in ("call_function", "call_method") or Unmet(
            f"{node.name} calls no function or method",
            "replace its module instead" if node.op == "call_module" else "choose a node that calls one",
            actual=node.op,
            needed="a call of a function or method",
        )
        new = yield from target_conditions(self.target)
        yield (
            new.op != node.op
            or new.called != node.target
            or Unmet(
                f"{node.name} calls {new.name} already", "choose another one", actual=new.name, needed="another target"
            )
        )
        yield from fit_conditions(node, new)
        return {node: Step(node.name, new.function, node.args, kwargs_for(node, new))}

    def before(self, node: Node) -> str:
        return target_name(node)

    def do(self, node: Node, outcome: Outcome, rewriter: Rewriter) -> None:
        new = target_named(self.target)
        rewriter.set_call(node, new.op, new.called, node.args, kwargs_for(node, new))
