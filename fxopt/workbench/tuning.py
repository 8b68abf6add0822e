"""Does packing pay? The time of each packed linear layer in its graph, beside that of the nodes that it replaced.

A layer that is called again and again by itself finds its weight in the cache, where packing brings less than in the
whole model. So both graphs run whole, in turn, and the times of their nodes are compared.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from typing import Any

from torch.fx import GraphModule

from fxopt.core import Pass
from fxopt.evidence.node_times import NodeTimes, node_times
from fxopt.graph.nodes import TensorInfo, info_of
from fxopt.passes.packing import LayerToPack

_TURNS, _ROUNDS = 3, 3
_SLOWER = 0.95
"""Closer to 1 than this, a ratio may be noise, and packing stays."""


@dataclass(frozen=True)
class SiteTime:
    """The time of the packed layers that are alike: of one form, on inputs of one shape."""

    sites: tuple[str, ...]
    layer: str
    shape: tuple[Any, ...]
    """Of the input; empty if it is unknown."""
    ratio: float
    """The time of the nodes before over that of the packed layer: above 1, packing pays."""
    than: str = ""
    """The layer whose time is divided, if it is not that before, in words."""

    @property
    def is_slower(self) -> bool:
        return self.ratio < _SLOWER

    def sites_in(self, names: Container[str]) -> tuple[str, ...]:
        """Return its sites that are among `names`."""
        return tuple(site for site in self.sites if site in names)

    def __str__(self) -> str:
        more = f" and {len(self.sites) - 1} more" if len(self.sites) > 1 else ""
        shape = f" on {self.shape}" if self.shape else ""
        return f"{self.sites[0]}{more}: {self.layer}{shape} is {self._told}"

    @property
    def _told(self) -> str:
        told = f"{1 / self.ratio:.2f}x slower" if self.is_slower else "not faster"
        return f"{told} than {self.than}" if self.than else f"{told} when packed"


def packing_times(
    pass_: Pass[LayerToPack],
    before: GraphModule,
    after: GraphModule,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    budget: float = 10.0,
) -> list[SiteTime]:
    """Measure the effect of a pass that packs linears between `before` and `after`, in CPU time of one thread.

    Args:
        pass_: `PackLinears`, or one that packs them in another dtype.
        before: a graph in which the pass matches.
        after: the same with all its sites on.
        budget: seconds for all measurements.
    """
    kinds: dict[tuple[str, tuple[Any, ...]], list[LayerToPack]] = defaultdict(list)
    packed = {node.name: str(node.target) for node in after.graph.nodes if node.op == "call_module"}
    for match in pass_.scan(before).matches:
        module = after.get_submodule(packed[match.site])
        info = info_of(match.layer.input) if match.layer.input is not None else None
        kinds[str(module), tuple(info.shape) if isinstance(info, TensorInfo) else ()].append(match)

    def timed(gm: GraphModule) -> NodeTimes:
        return node_times(gm, args, kwargs, rounds=_ROUNDS, budget=budget / (2 * _TURNS))

    turns = [(timed(before), timed(after)) for _ in range(_TURNS)] if kinds else []
    return [
        SiteTime(
            tuple(match.site for match in matches),
            layer,
            shape,
            statistics.median(_ratio(matches, old, new) for old, new in turns),
        )
        for (layer, shape), matches in kinds.items()
    ]


def not_faster(times: Iterable[SiteTime], others: Iterable[SiteTime], name: str) -> list[SiteTime]:
    """Return the layers that are faster neither than the nodes before nor than `others`, which are called `name`."""
    ratio_of = {site: one.ratio for one in others for site in one.sites}
    found = []
    for one in times:
        by_rival: dict[float, list[str]] = defaultdict(list)
        for site in one.sites:
            by_rival[max(1.0, ratio_of.get(site, 1.0))].append(site)
        for rival, sites in by_rival.items():
            if one.ratio <= rival:
                than = name if rival > 1 else ""
                found.append(replace(one, sites=tuple(sites), ratio=one.ratio / rival, than=than))
    return found


def _ratio(matches: list[LayerToPack], before: NodeTimes, after: NodeTimes) -> float:
    """Return the time of all nodes that the matches replace, over that of the packed layers."""
    gone = sum(
        before.seconds[name] for match in matches for name in (match.site, *(node.name for node in match.behind))
    )
    return gone / max(sum(after.seconds[match.site] for match in matches), 1e-9)
