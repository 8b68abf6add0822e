"""A cost by module, as nested blocks: a module is as wide as its share, and its parts stand below it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from torch.fx import GraphModule

from fxopt.evidence.costs import Costs
from fxopt.graph.nodes import module_stack_of, target_name

LEAST = 0.002
"""Blocks of a smaller share are left out: they could not be seen."""


@dataclass(frozen=True)
class Block:
    """The share of a module or node in a cost, and its place from 0 to 1. The whole has the depth 0 and no name."""

    name: str
    """The path of the module, or the name of the node."""
    kind: str
    """The class of the module, or the target of the node."""
    is_node: bool
    depth: int
    start: float
    share: float
    amount: int


@dataclass
class _Part:
    name: str
    kind: str
    is_node: bool
    amount: int = 0
    parts: dict[str, _Part] = field(default_factory=dict)


def cost_blocks(gm: GraphModule, costs: Costs, least: float = LEAST) -> tuple[Block, ...]:
    """Return the blocks of a cost, parts after their whole, in the order of the run; empty where nothing costs.

    A part of the cost that several nodes share, such as a tied weight, counts at the first of them.
    """
    whole = _Part("", "", is_node=False)
    seen: set[tuple[Hashable, int]] = set()
    for node in gm.graph.nodes:
        new = costs.parts.get(node.name, frozenset()) - seen
        seen |= new
        amount = sum(own for _, own in new)
        if not amount:
            continue
        part = whole
        part.amount += amount
        for path, kind in module_stack_of(node):
            part = part.parts.setdefault(f"@{path}", _Part(path, kind, is_node=False))
            part.amount += amount
        part.parts[node.name] = _Part(node.name, target_name(node), is_node=True, amount=amount)
    return tuple(_placed(whole, 0, 0, whole.amount, least)) if whole.amount else ()


def _placed(part: _Part, depth: int, before: int, total: int, least: float) -> Iterator[Block]:
    share = part.amount / total
    if share < least:
        return
    yield Block(part.name, part.kind, part.is_node, depth, before / total, share, part.amount)
    for inner in part.parts.values():
        yield from _placed(inner, depth + 1, before, total, least)
        before += inner.amount
