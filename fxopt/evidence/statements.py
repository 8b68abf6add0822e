"""The lines of generated code of a rewrite."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from torch.fx import GraphModule

_ASSIGNED = re.compile(r"\s+(\w+)(?: : [^=]+)? = ")


def statements_of(gm: GraphModule) -> Mapping[str, str]:
    """Return the statement that computes each node, by the node's name, in the order of the graph.

    >>> import torch
    >>> gm = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.ReLU()))
    >>> statements_of(gm)["output"]
    'return _0'
    """
    found: dict[str, str] = {}
    for line in gm.graph.python_code("self").src.splitlines():
        name = node_computed_by(line)
        if name is not None:
            found[name] = line.partition(";  ")[0].strip()  # the part behind it frees names
    return found


def node_computed_by(line: str) -> str | None:
    """Return the name of the node that a line of generated code computes, "output" for the one that returns."""
    if match := _ASSIGNED.match(line):
        return str(match[1])
    return "output" if line.strip().startswith("return ") else None


def lines_of(gm: GraphModule, names: Collection[str]) -> str:
    """Return the statements of the nodes in `names` that are in the graph, in its order."""
    return "\n".join(statement for name, statement in statements_of(gm).items() if name in names)
