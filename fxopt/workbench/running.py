"""The run of one pass over a graph by its choice, and its state afterwards."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from fxopt.core import Entry, GraphIndex, Match, Pass, Scan
from fxopt.workbench.states import Choice, MissState, PassState, SiteState, failed, site_state, with_entries


@dataclass(frozen=True)
class AllBut:
    """Every site but some."""

    without: frozenset[str]

    def __contains__(self, site: object) -> bool:
        return site not in self.without


def run_pass(pass_: Pass[Any], choice: Choice, index: GraphIndex) -> PassState:
    """Scan, and rewrite where the choice says so. A failed pass is rolled back, and its state holds the reason."""
    start = time.perf_counter()
    failure: Exception | None = None
    entries: tuple[Entry, ...] = ()
    scan: Scan[Match] = Scan()
    sites: list[SiteState] = []
    try:
        scan = pass_.scan(index)
        sites = [site_state(pass_, match) for match in scan.matches]
        if choice.on:
            entries = pass_.apply(index, AllBut(choice.without))
    except Exception as raised:  # noqa: BLE001 - a pass may be anyone's; its failure is shown, and was rolled back
        failure = raised
    misses = tuple(MissState.of(miss) for miss in scan.near_misses)
    seconds = time.perf_counter() - start
    state = PassState(pass_, choice.on, with_entries(sites, entries), misses, seconds)
    return state if failure is None else failed(state, failure)
