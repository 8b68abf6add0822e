"""Marks in the graph: the sites of the pass in focus, and the changes by the passes that are on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from fxopt.view import Mark
from fxopt.workbench import PassState, SiteState


def marks_of(states: Sequence[PassState], looked_at: str = "", original: bool = False) -> Mapping[str, Sequence[Mark]]:
    """Return the marks by node name: of removed nodes in the original graph, of created ones in the current graph."""
    found: dict[str, dict[Mark, None]] = defaultdict(dict)
    for index, state in enumerate(states):
        if state.failed_at:
            found[state.failed_at][Mark("failed", index)] = None
        for site in state.sites:
            if site.on:
                for name, mark in _of_rewritten(site, index, original):
                    found[name][mark] = None
            elif state.name == looked_at:
                for name in site.nodes:
                    found[name][Mark("matched", index)] = None
        if state.name == looked_at:
            for miss in state.misses:
                found[miss.site][Mark("miss", index)] = None
    return {name: tuple(marks) for name, marks in found.items()}


def _of_rewritten(site: SiteState, index: int, original: bool) -> Iterator[tuple[str, Mark]]:
    changed = (*site.changed, *(() if original else site.created))
    for name in changed or (site.site,):
        yield name, Mark("applied", index)
    for name in site.changed:
        yield name, Mark("changed", index)
    if original:
        yield from ((name, Mark("removed", index)) for name in site.removed)
    else:
        yield from ((name, Mark("created", index)) for name in site.created)
