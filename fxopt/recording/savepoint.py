"""The state of a graph module that an act changes, taken before the act, and put back if the act fails midway.

It covers the graph, the tables and attributes of the graph module and its containers, the ledger, and the generated
code: all that changes reach. Leaf modules and tensors are only replaced, so taking it costs about two microseconds a
node and no memory for weights. It is independent of the notes of a failed act.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torch import nn
from torch.fx import GraphModule

from fxopt.graph.marks import LEDGER
from fxopt.recording.graph_state import GraphState
from fxopt.recording.module_state import ObjectState


class Savepoint:
    """A graph module as it is now, to go back to.

    Args:
        modules: those whose state it has; the ones that belong to the graph module, if not given.
    """

    def __init__(self, gm: GraphModule, modules: Iterable[nn.Module] | None = None) -> None:
        self.gm = gm
        self.graph = GraphState.of(gm.graph)
        self.objects = [ObjectState.of(module) for module in (_own_modules(gm) if modules is None else modules)]
        self._owner = gm.graph.owning_module
        self._forward = vars(type(gm)).get("forward")

    def restore(self) -> None:
        """Put everything back. Interrupted, it can be run again."""
        for state in self.objects:
            state.restore()
        self.graph.restore()
        self.graph.graph.owning_module = self._owner
        if self._forward is not None and vars(type(self.gm)).get("forward") is not self._forward:
            type(self.gm).forward = self._forward


def _own_modules(gm: GraphModule) -> Iterator[nn.Module]:
    """Yield the graph module, the containers of torch.fx in it, which belong to it as well, and its ledger."""
    todo: list[nn.Module] = [gm]
    seen: set[int] = set()
    while todo:
        module = todo.pop()
        if id(module) not in seen:
            seen.add(id(module))
            yield module
            todo += [child for child in module._modules.values() if type(child) is nn.Module]
    ledger = gm._modules.get(LEDGER)
    if ledger is not None:
        yield ledger
