"""The history of a node in sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch.fx import GraphModule

from fxopt.core import Ledger
from fxopt.graph.marks import ORIGIN, Origin


def story(gm: GraphModule, name: str, by_hand: Mapping[str, str], named: Callable[[str], str]) -> list[str]:
    """Return the sentences of `Workbench.story` about the node of this name.

    Args:
        by_hand: the words for an edit by hand, by its name.
        named: returns the words for a pass by its name.
    """
    told = []
    origin = next((node.meta.get(ORIGIN) for node in gm.graph.nodes if node.name == name), None)
    if isinstance(origin, Origin):
        made_from = f"by {named(origin.pass_name)} from {', '.join(origin.nodes) or origin.site}"
        told.append(f"made {by_hand.get(origin.pass_name, made_from)}")
    for entry in Ledger.entries_of(gm):
        by = by_hand.get(entry.name, f"by {named(entry.name)} at {entry.site}")
        if name in entry.patch.changed:
            told.append(f"changed {by}")
        if name in entry.patch.removed:
            told.append(f"removed {by}")
    return told
