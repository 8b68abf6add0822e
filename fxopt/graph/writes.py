"""Conditions on memory that must stay unchanged between two nodes, such as the input of linear layers to be merged."""

from __future__ import annotations

from torch.fx import Node

from fxopt.graph.conditions import Condition, Unmet
from fxopt.graph.index import GraphIndex


def unwritten_condition(
    tensor: Node, first: Node, last: Node, index: GraphIndex, when: str = "", *, may: bool = False
) -> Condition:
    """Require that all nodes after `first` and before `last` leave the memory of `tensor` unchanged.

    Args:
        when: the end of the sentence that says so; between which two nodes, if it is empty.
        may: whether a known operation, too, is said to "may change" the tensor, as one that changes a view of it may.
    """
    writer = index.writes_between(first, last, tensor)
    if writer is None:
        return True
    opaque = index.effects(writer).opaque
    verb = "may change" if may or opaque else "changes"
    where = when or f"between {first.name} and {last.name}"
    why = f": it is a call of {opaque}, which may write to what it is given" if opaque else ""
    return Unmet(
        f"{writer.name} {verb} {tensor.name} in place {where}{why}",
        remedy=_remedy(writer) if opaque else "",
        actual=f"written by {writer.name}",
        needed="unchanged",
    )


def _remedy(writer: Node) -> str:
    declared = "make it an operator that declares its writes (torch.library.custom_op with mutates_args)"
    return f"capture what is inside it rather than a call, or {declared}" if writer.op == "call_module" else declared
