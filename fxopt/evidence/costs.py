"""Cost of each node in parameters, floating-point operations, bytes or time; and the critical path."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch.fx import GraphModule, Node

from fxopt.graph.nodes import attribute_of, inputs_of, module_of

Unit = Literal["parameter", "FLOP", "byte", "nanosecond"]

Parts: TypeAlias = frozenset[tuple[Hashable, int]]
"""The parts of a cost: pairs of an identity and an amount. Parts of one identity count once."""

_TIMES = (("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1))
_PREFIXES = ("", "k", "M", "G", "T", "P")


@dataclass(frozen=True)
class Costs:
    """Costs by the name of the node, for nodes that have any. `note` names operations that it leaves open."""

    unit: Unit
    parts: Mapping[str, Parts]
    note: str = ""
    kernels: Costs | None = None
    """Of times: the part of them in which operators compute, where it is told apart from Python and dispatch."""

    def of(self, name: str) -> int:
        """Return the cost of one node."""
        return sum(amount for _, amount in self.parts.get(name, ()))

    def of_all(self, names: Iterable[str]) -> int:
        """Return the cost of several nodes together; shared parts count once."""
        return sum(amount for _, amount in {part for name in names for part in self.parts.get(name, ())})

    def told(self, amount: int) -> str:
        """Give an amount in words.

        >>> Costs("FLOP", {}).told(2_340_000), Costs("parameter", {}).told(1), Costs("byte", {}).told(512)
        ('2.34 MFLOP', '1 parameter', '512 bytes')
        >>> Costs("nanosecond", {}).told(2_340_000), Costs("nanosecond", {}).told(8_200)
        ('2.34 ms', '8.2 us')
        """
        if self.unit == "nanosecond":
            return next(f"{amount / size:.3g} {name}" for name, size in _TIMES if amount >= size or size == 1)
        if self.unit == "parameter" or amount < 1000:
            return f"{amount:,} {self.unit}{'' if amount == 1 or self.unit == 'FLOP' else 's'}"
        power = min(len(str(amount)) - 1, 3 * len(_PREFIXES) - 1) // 3
        return f"{amount / 1000**power:.3g} {_PREFIXES[power]}{'B' if self.unit == 'byte' else self.unit}"


def parameter_costs(gm: GraphModule) -> Costs:
    """Count the parameters that each node reads."""
    found = {}
    for node in gm.graph.nodes:
        if tensors := _parameters_of(gm, node):
            found[node.name] = frozenset((id(tensor), tensor.numel()) for tensor in tensors)
    return Costs("parameter", found)


def _parameters_of(gm: GraphModule, node: Node) -> list[torch.Tensor]:
    module = module_of(node)
    if module is not None:
        return list(module.parameters())
    value = attribute_of(gm, str(node.target)) if node.op == "get_attr" else None
    return [value] if isinstance(value, torch.nn.Parameter) else []


@dataclass(frozen=True)
class CriticalPath:
    """A chain of nodes, each of which reads the one before; its cost, and that of all nodes."""

    nodes: tuple[str, ...]
    cost: int
    total: int

    @property
    def share(self) -> float:
        return self.cost / self.total if self.total else 0.0


def critical_path(gm: GraphModule, costs: Costs) -> CriticalPath:
    """Return the most costly chain of nodes from an input to the output; of several, the one through first inputs.

    Each node counts in full, as its time would. If no input leads to the output, the chain may begin anywhere; a graph
    without an output has none. Takes time in proportion to nodes and edges.
    """
    nodes = list(gm.graph.nodes)
    of = {node: costs.of(node.name) for node in nodes}
    outputs = [node for node in nodes if node.op == "output"]
    total = sum(of.values())
    if not outputs:
        return CriticalPath((), 0, total)
    end = outputs[-1]
    best, before = _heaviest(nodes, of, [node for node in nodes if node.op == "placeholder"])
    if end not in best:
        best, before = _heaviest(nodes, of, [node for node in nodes if not node.all_input_nodes])
    way = [end]
    while way[-1] in before:
        way.append(before[way[-1]])
    return CriticalPath(tuple(node.name for node in reversed(way)), best[end], total)


def _heaviest(
    nodes: list[Node], of: Mapping[Node, int], starts: list[Node]
) -> tuple[dict[Node, int], dict[Node, Node]]:
    """Return the weight of the heaviest way to each node that a start leads to, and the node before on it."""
    best = {start: of[start] for start in starts}
    before: dict[Node, Node] = {}
    for node in nodes:
        ways = [other for other in inputs_of(node) if other in best]
        if ways:
            before[node] = max(ways, key=best.__getitem__)
            best[node] = best[before[node]] + of[node]
    return best, before
