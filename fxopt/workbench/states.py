"""The state of passes on a workbench: sites, near misses and choices, as plain data."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, replace
from typing import Any

from fxopt.core import Entry, Exactness, FxoptError, Match, Miss, Pass, Unmet
from fxopt.graph.site import Refusal


@dataclass(frozen=True)
class SiteState:
    """A site of a pass: a match, and its rewrite if it is on."""

    id: str
    """Of this site of this pass, the same in every process."""
    site: str
    """The name of the anchor node."""
    nodes: tuple[str, ...]
    """The nodes that the pass captured, the anchor first."""
    explanation: str
    exactness: Exactness
    on: bool = False
    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    rewritten: tuple[str, ...] = ()
    """Of `nodes`, those that the rewrite is about, the anchor first: the others are read alone."""


@dataclass(frozen=True)
class MissState(Refusal):
    """A near miss of a pass."""

    site: str
    unmet: Unmet
    """Its first unmet condition, and the remedy."""
    met: int = 0
    """The number of conditions met before this one."""

    @classmethod
    def of(cls, miss: Miss) -> MissState:
        return cls(miss.site, miss.unmet, miss.met)


@dataclass(frozen=True, eq=False)
class PassState:
    """One pass on the workbench, as of the graph just before it."""

    pass_: Pass[Any]
    on: bool
    sites: tuple[SiteState, ...]
    misses: tuple[MissState, ...]
    """The nearest first."""
    seconds: float
    """Time taken by the scan, and by the rewrite if the pass is on."""
    error: str = ""
    """The reason why the pass, though on, did nothing: it failed and was rolled back."""
    failed_at: str = ""
    """The node at which it failed, where that is known."""
    report: str = ""
    """Of the failure, for whoever mends the pass: where in its code, and the error."""

    def __repr__(self) -> str:
        return f"PassState({self.in_words})"

    @property
    def in_words(self) -> str:
        """The pass with the numbers of its sites, those that are on, and its near misses."""
        misses = f", {len(self.misses)} left alone" if self.misses else ""
        error = f", failed: {self.error}" if self.error else ""
        return f"{self.name}: {self.sites_on} of {len(self.sites)} sites on{misses}{error}"

    @property
    def name(self) -> str:
        return self.pass_.name

    @property
    def sites_on(self) -> int:
        return sum(site.on for site in self.sites)


@dataclass(frozen=True)
class Choice:
    """One pass as on or off, and the sites that are left out."""

    signature: str
    """Of the pass."""
    on: bool = False
    without: frozenset[str] = frozenset()


def site_state(pass_: Pass[Any], match: Match) -> SiteState:
    names = tuple(node.name for node in match.nodes)
    rewritten = tuple(node.name for node in match.rewritten)
    return SiteState(
        pass_.site_id(match), match.site, names, pass_.explain(match), pass_.exactness(match), rewritten=rewritten
    )


def failed(state: PassState, failure: Exception) -> PassState:
    """Return the state of a pass that failed and was rolled back."""
    told = str(failure) if isinstance(failure, FxoptError) else f"{type(failure).__name__}: {failure}"
    report = "".join(traceback.format_exception(failure))
    return replace(state, error=told, failed_at=getattr(failure, "site", ""), report=report)


def with_entries(sites: list[SiteState], entries: tuple[Entry, ...]) -> tuple[SiteState, ...]:
    """Return the sites with their rewrites. A site that another made possible was missed by the scan; it comes last."""
    done = {entry.site: entry for entry in entries}
    known = {site.site for site in sites}
    later = [
        SiteState(entry.id, entry.site, (entry.site,), "made possible by another site of this pass", entry.exactness)
        for entry in entries
        if entry.site not in known
    ]
    return tuple(_with_patch(site, done.get(site.site)) for site in [*sites, *later])


def _with_patch(site: SiteState, entry: Entry | None) -> SiteState:
    if entry is None:
        return site
    patch = entry.patch
    return replace(site, on=True, created=patch.created, changed=patch.changed, removed=patch.removed)
