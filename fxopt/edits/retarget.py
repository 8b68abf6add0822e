"""Replace the function or method that a node calls by one that takes the same arguments."""

from __future__ import annotations

from dataclasses import dataclass

from torch.fx import Node

from fxopt.core import Conditions, GraphIndex, Rewriter, Unmet, target_name
from fxopt.edits.draft import Draft, Step
from fxopt.edits.edit import Edit
from fxopt.edits.propagation import Outcome
from fxopt.edits.targets import fit_conditions, kwargs_for, resolved


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
            "replace its module instead" if node.op == "call_module" else "",
            actual=node.op,
            needed="a call of a function or method",
        )
        new = resolved(self.target)
        if new is None:
            yield Unmet(
                f"{self.target} is no function of tensors in torch, torch.nn.functional, operator or torch.Tensor",
                "write it like F.gelu, torch.sub or torch.Tensor.tanh",
                actual=self.target,
                needed="a function that torch knows",
            )
            return {}
        yield (
            new.op != node.op
            or new.called != node.target
            or Unmet(f"{node.name} calls {new.name} already", actual=new.name, needed="another target")
        )
        yield from fit_conditions(node, new)
        return {node: Step(node.name, new.function, node.args, kwargs_for(node, new))}

    def before(self, node: Node) -> str:
        return target_name(node)

    def do(self, node: Node, outcome: Outcome, rewriter: Rewriter) -> None:
        new = resolved(self.target)
        assert new is not None, f"{self.target} was there when it was matched"
        rewriter.set_call(node, new.op, new.called, node.args, kwargs_for(node, new))
