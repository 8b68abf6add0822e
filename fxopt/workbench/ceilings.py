"""The most that a pass, or one of its sites, can bring: the share of the time that its nodes take."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from fxopt.evidence.node_times import NodeTimes
from fxopt.workbench.states import PassState, SiteState


@dataclass(frozen=True)
class Ceiling:
    """The share of the time that the nodes of a rewrite take before it, 0 to 1."""

    share: float

    @property
    def speedup(self) -> float:
        """The factor by which the whole is faster if they take no time at all, by Amdahl's law: 1 / (1 - share)."""
        return 1 / (1 - self.share) if self.share < 1 else math.inf

    def __str__(self) -> str:
        """Return it in words.

        >>> print(Ceiling(0.6)); print(Ceiling(0.004))
        60 % of the time, so at most 2.50x faster
        below 1 % of the time
        """
        if self.share < 0.01:
            return "below 1 % of the time"
        if self.share >= 1:
            return "all of the time"
        return f"{self.share:.0%} of the time, so at most {self.speedup:.2f}x faster".replace("%", " %")


def ceiling(times: NodeTimes, sites: SiteState | Iterable[SiteState]) -> Ceiling:
    """Return the ceiling of one site, or of several together, whose nodes count once.

    A rewrite that leaves numbers in another order in memory may speed up or slow down its readers, which no ceiling
    knows. Sites that are on already are measured as they are: take the times of the graph before it.

    Args:
        times: of the graph in which the sites are matches.
    """
    listed = (sites,) if isinstance(sites, SiteState) else sites
    return Ceiling(times.share(name for site in listed for name in site.rewritten))


def ceilings(times: NodeTimes, states: Iterable[PassState]) -> dict[str, Ceiling]:
    """Return the ceiling of each pass that has a site, by its name."""
    return {state.name: ceiling(times, state.sites) for state in states if state.sites}
