"""The generated code of a graph with a clock that is read behind each statement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.fx import GraphModule

from fxopt.evidence.statements import node_computed_by

_CLOCK, _TICKS = "_fxopt_clock", "_fxopt_ticks"


def with_clock(gm: GraphModule, clock: Callable[[], int]) -> tuple[list[str], Callable[..., Any], list[int]]:
    """Return the nodes in the order of the statements, the graph's function with the clock, and the list it fills."""
    code = gm.graph.python_code("self")
    known = {node.name for node in gm.graph.nodes if node.op != "output"}  # a return does no work
    read = f"    {_TICKS}.append({_CLOCK}())"
    names: list[str] = []
    lines: list[str] = []
    for line in code.src.splitlines():
        lines.append(line)
        name = node_computed_by(line)
        if line.startswith("def "):
            lines.append(read)
        elif name in known:
            names.append(str(name))
            lines.append(read)
    ticks: list[int] = []
    space: dict[str, Any] = {**code.globals, _CLOCK: clock, _TICKS: ticks}
    exec(compile("\n".join(lines), "<graph with a clock>", "exec"), space)
    return names, space["forward"], ticks
