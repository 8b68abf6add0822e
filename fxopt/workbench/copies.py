"""Sites of repeated blocks: the same place in every copy of a block, as one family to switch together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fxopt.view import GraphView, NodeView
from fxopt.workbench.states import SiteState


@dataclass(frozen=True)
class Family:
    """Sites that differ only in their block."""

    place: str
    """Their path, with ``*`` for the number of the block: ``encoder.layer.*.attention``; or the one site's name."""
    sites: tuple[SiteState, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(site.site for site in self.sites)

    @property
    def sites_on(self) -> int:
        return sum(site.on for site in self.sites)


def families_of(view: GraphView, sites: Sequence[SiteState], *others: GraphView) -> tuple[Family, ...]:
    """Return the sites in families, those at the same place of repeated blocks together, in the order of their first.

    `view` is of a graph that has the anchors, as a rule the pristine one; an anchor that it lacks is looked for in the
    `others`. Blocks are copies as `GraphView.alike` counts
    them. Two sites are at the same place if their anchors lie in copies, call the same there, and come at the same turn
    among such calls.
    """
    turns: Counter[tuple[str, ...]] = Counter()
    found: dict[tuple[object, ...], list[SiteState]] = {}
    for site in sites:
        of = next((one for one in (view, *others) if site.site in one.by_name), None)
        if of is None:  # another pass made it
            found[site.site,] = [site]
            continue
        node = of.by_name[site.site]
        inside = (node.modules[-1][0] if node.modules else "", _called(node))
        turns[inside] += 1
        key = (_place(of, node), _called(node), turns[inside], len(site.nodes), site.exactness)
        found.setdefault(key, []).append(site)
    return tuple(Family(_named(key, of), tuple(of)) for key, of in found.items())


def _place(view: GraphView, node: NodeView) -> str:
    """Return the module path of a node, with a star for the part that tells a block from its copies."""
    place, parent = "", ""
    for path, _ in node.modules:
        own = path.removeprefix(parent).lstrip(".#")
        if view.alike[path] > 1:
            own = re.sub(r"\d+", "*", own) if re.search(r"\d", own) else "*"
        place = f"{place}.{own}" if place else own
        parent = path
    return place


def _called(node: NodeView) -> str:
    """Return the target of a node, relative to the module that makes the call."""
    return node.target.removeprefix(f"{node.module}.") if node.op == "call_module" else node.target


def _named(key: tuple[object, ...], sites: list[SiteState]) -> str:
    if len(sites) == 1:
        return sites[0].site
    place, called, turn = str(key[0]), str(key[1]), int(str(key[2]))
    return f"{place}.{called.lstrip('.')}" + (f" ({turn})" if turn > 1 else "")
