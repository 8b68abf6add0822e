"""The state of a graph module that an act changes, taken before the act, and put back if the act fails midway.

It covers the graph, the tables and attributes of the graph module and its containers, the ledger, and the generated
code: all that changes reach. Leaf modules and tensors are only replaced, so taking it costs about two microseconds a
node and no memory for weights. It is independent of the notes of a failed act.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from torch import nn
from torch.fx import GraphModule

from fxopt.graph.marks import LEDGER
from fxopt.recording.containers import CONTAINERS, refill
from fxopt.recording.graph_state import GraphState

_TRIES = 100

_USUAL = frozenset({dict, list, set, OrderedDict})
"""Quick to look up, unlike `isinstance`, which decides on the rest."""


class Savepoint:
    """A graph module as it is now, to go back to."""

    def __init__(self, gm: GraphModule) -> None:
        self._gm = gm
        self._graph = GraphState.of(gm.graph)
        self._owner = gm.graph.owning_module
        self._objects = [ObjectState(thing) for thing in _own_modules(gm)]
        self._forward = vars(type(gm)).get("forward")

    def restore(self) -> None:
        """Put everything back. Interrupted, it can be run again."""
        for state in self._objects:
            state.restore()
        self._graph.restore()
        self._graph.graph.owning_module = self._owner
        if self._forward is not None and vars(type(self._gm)).get("forward") is not self._forward:
            type(self._gm).forward = self._forward


class ObjectState:
    """The attributes of an object, and the contents of those that are containers; empty ones are left out."""

    __slots__ = ("attributes", "contents", "thing")

    def __init__(self, thing: Any) -> None:
        self.thing = thing
        self.attributes: dict[str, Any] = thing.__dict__.copy()
        self.contents = {
            name: value.copy()
            for name, value in self.attributes.items()
            if (type(value) in _USUAL or isinstance(value, CONTAINERS)) and value
        }

    def restore(self) -> None:
        current = self.thing.__dict__
        for name in current.keys() - self.attributes.keys():
            del current[name]
        current.update(self.attributes)
        for name, value in self.attributes.items():
            if isinstance(value, CONTAINERS):
                refill(value, self.contents.get(name, ()))


def surely(act: Callable[[], object]) -> None:
    """Run a repeatable act until it ends without an interruption; then raise the first interruption.

    An error that comes back every time is raised after some tries.
    """
    first: BaseException | None = None
    for _ in range(_TRIES):
        try:
            act()
            break
        except BaseException as error:  # noqa: BLE001 - raised below
            first = first or error
    if first is not None:
        raise first


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
