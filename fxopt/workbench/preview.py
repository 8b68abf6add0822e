"""Preview of a switch of a pass or a site, found on a copy that shares all weights; the graph stays unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch.fx import GraphModule, Node

from fxopt.core import Entry, Ledger, Pass
from fxopt.workbench.choosing import Sites
from fxopt.workbench.summary import is_product
from fxopt.workbench.workbench import Workbench


@dataclass(frozen=True)
class Preview:
    """The nodes that a switch of a pass, or of some of its sites, would remove, create and change, by name."""

    pass_name: str
    sites: frozenset[str] | None
    """The sites; None for all of the pass."""
    turns_on: bool
    """Whether it would be switched on, rather than off."""
    removed: tuple[str, ...] = ()
    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    near: tuple[str, ...] = ()
    """For each node that would appear, one that is there and beside which it would stand."""
    parameters_delta: int = 0
    """The change in the count of parameters; shared ones count once."""
    ops_delta: int = 0
    """The change in the count of calls."""
    products_delta: int = 0
    """The change in the count of matrix products among them."""

    @property
    def is_empty(self) -> bool:
        return not (self.removed or self.created or self.changed)

    def __str__(self) -> str:
        """Return the whole in a line.

        >>> print(Preview("MergeLinears", None, True, created=("merged",), changed=("q", "k", "v"), ops_delta=1))
        1 created, 3 changed; +1 operation
        """
        kinds = [(self.removed, "removed"), (self.created, "created"), (self.changed, "changed")]
        nodes = ", ".join(f"{len(names)} {kind}" for names, kind in kinds if names)
        return "; ".join(filter(None, (nodes, self.sizes))) or "nothing would change"

    @property
    def sizes(self) -> str:
        """The changes in the counts of parameters, calls and matrix products, in words."""
        deltas = [
            (self.parameters_delta, "parameter"),
            (self.ops_delta, "operation"),
            (self.products_delta, "matrix product"),
        ]
        return ", ".join(f"{'+' if delta > 0 else '−'}{_counted(abs(delta), word)}" for delta, word in deltas if delta)


def preview(wb: Workbench, pass_: Pass[Any] | str, site: Sites = None) -> Preview:
    """Preview the switch of a pass, or of some of its sites, on the current graph: on if any of it is off, else off.

    Raises:
        FxoptError: the workbench has no such pass, or the pass no such site.
    """
    state, sites = wb.state_of(pass_), _names(site)
    is_on = state.on if sites is None else sites <= {one.site for one in state.sites if one.on}
    trial = wb.trial(wb.with_(pass_, site, on=not is_on))
    old, new = ({node.name: node for node in gm.graph.nodes} for gm in (wb.current, trial))
    removed = tuple(name for name in old if name not in new)
    created = tuple(name for name in new if name not in old)
    gone = {*removed, *created}
    changed = tuple(name for name in dict.fromkeys(_changed(wb.current, trial)) if name not in gone)
    return Preview(
        pass_name=state.name,
        sites=sites,
        turns_on=not is_on,
        removed=removed,
        created=created,
        changed=changed,
        near=tuple(_beside(new[name], old) for name in created),
        parameters_delta=_parameters(trial) - _parameters(wb.current),
        ops_delta=_calls(trial) - _calls(wb.current),
        products_delta=_products(trial) - _products(wb.current),
    )


def _changed(before: GraphModule, after: GraphModule) -> Iterator[str]:
    """Yield the changes by sites that are in force on only one of two graph modules."""
    entries: list[dict[str, Entry]] = [{entry.id: entry for entry in Ledger.entries_of(gm)} for gm in (before, after)]
    for mine, other in (entries, reversed(entries)):
        for site_id, entry in mine.items():
            if site_id not in other:
                yield from entry.patch.changed


def _beside(node: Node, old: dict[str, Node]) -> str:
    """Return the nearest node of the old graph: one that reads the new one, else one that it reads."""
    front, seen = [node], {node}
    while front:
        for one in front:
            for other in (*one.users, *one.all_input_nodes):
                if other.name in old:
                    return other.name
        front = [other for one in front for other in (*one.users, *one.all_input_nodes) if other not in seen]
        seen.update(front)
    return ""


def _parameters(gm: GraphModule) -> int:
    return sum(parameter.numel() for parameter in gm.parameters())


def _calls(gm: GraphModule) -> int:
    return sum(node.op.startswith("call_") for node in gm.graph.nodes)


def _products(gm: GraphModule) -> int:
    return sum(is_product(node) for node in gm.graph.nodes if node.op.startswith("call_"))


def _names(site: Sites) -> frozenset[str] | None:
    return None if site is None else frozenset({site} if isinstance(site, str) else site)


def _counted(count: int, word: str) -> str:
    return f"{count:,} {word}{'s' if count != 1 else ''}"
