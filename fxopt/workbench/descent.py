"""Descent of nodes: those of the original graph, and their successors in the current one."""

from __future__ import annotations

from collections.abc import Iterator

from torch.fx import GraphModule

from fxopt.core import Ledger
from fxopt.graph.marks import ORIGIN, Origin
from fxopt.workbench.workbench import Workbench

Descent = tuple[tuple[str, str], ...]
"""Pairs of a node of the original graph and a node of the current one that does its work."""


def descent(wb: Workbench) -> Descent:
    """Return the pairs of an original node and a current one that was made from it.

    A node that was removed while nothing was made from it became those that its site changed: a batch norm became the
    convolution that it was folded into. One that was changed in place became itself, unless others were made from it.
    """
    gm = wb.current
    old = {node.name for node in wb.pristine.graph.nodes}
    here = {node.name for node in gm.graph.nodes}
    pairs = dict.fromkeys(_made(gm, old))
    heirs = {name for name, _ in pairs}
    entries = Ledger.entries_of(gm)
    for entry in entries:
        gone = [name for name in entry.patch.removed if name in old and name not in heirs]
        pairs |= dict.fromkeys((name, new) for name in gone for new in entry.patch.changed if new in here)
    for entry in entries:
        pairs |= dict.fromkeys(
            (name, name) for name in entry.patch.changed if name in old and name in here and name not in heirs
        )
    return tuple(pairs)


def _made(gm: GraphModule, old: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the pairs of nodes that passes made, through nodes between that later passes used up."""
    origins: dict[str, tuple[str, ...]] = {}
    for entry in Ledger.entries_of(gm):
        for node in entry.patch.inserted:
            origin = node.meta.get(ORIGIN)
            if isinstance(origin, Origin):
                origins[node.name] = origin.nodes or (origin.site,)
    for node in gm.graph.nodes:
        if node.name in origins:
            yield from ((name, node.name) for name in _roots(node.name, origins, old, frozenset()))


def _roots(name: str, origins: dict[str, tuple[str, ...]], old: set[str], seen: frozenset[str]) -> Iterator[str]:
    if name in origins and name not in seen:
        for one in origins[name]:
            yield from _roots(one, origins, old, seen | {name})
    elif name in old:
        yield name
