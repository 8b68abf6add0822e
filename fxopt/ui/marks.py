"""Marks in the graph: the sites of the pass in focus, and the changes by the passes that are on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from fxopt.edits import Edit
from fxopt.ui.markdown import counted
from fxopt.view import Mark
from fxopt.view.marks import MarkKind
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
                for name in site.rewritten or site.nodes:
                    found[name][Mark("matched", index, site.site)] = None
        if state.name == looked_at:
            for miss in state.misses:
                found[miss.site][Mark("miss", index, miss.site)] = None
    return {name: tuple(marks) for name, marks in found.items()}


def _of_rewritten(site: SiteState, index: int, original: bool) -> Iterator[tuple[str, Mark]]:
    changed = (*site.changed, *(() if original else site.created))
    for name in changed or (site.site,):
        yield name, Mark("applied", index, site.site)
    for name in site.changed:
        yield name, Mark("changed", index, site.site)
    if original:
        yield from ((name, Mark("removed", index, site.site)) for name in site.removed)
    else:
        yield from ((name, Mark("created", index, site.site)) for name in site.created)


def legend_of(states: Sequence[PassState], looked_at: str = "") -> tuple[tuple[MarkKind, int, str], ...]:
    """Return the legend of the passes: kinds of marks, each with the number of its pass and a count in words.

    It depends on the passes alone, so it is the same for every picture of one state. Sites are counted; nodes only as
    those in so many sites.
    """
    told: list[tuple[MarkKind, int, str]] = []
    for index, state in enumerate(states):
        on = [site for site in state.sites if site.on]
        off = [site for site in state.sites if not site.on]
        if on:
            nodes = {name for site in on for name in (*site.created, *site.changed, *site.removed)}
            told.append(("applied", index, f"{counted(len(nodes), 'node')} in {counted(len(on), 'site')}"))
        if off and state.name == looked_at:
            told.append(("matched", index, f"would apply at {counted(len(off), 'site')}"))
        if state.misses and state.name == looked_at:
            told.append(("miss", index, counted(len(state.misses), "near miss", "near misses")))
    return tuple(told)


def sites_to_play(states: Iterable[PassState]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the sites that are on, as they run: the words of each, and the nodes that differ by it."""
    for state in states:
        for site in state.sites:
            if site.on:
                told = state.pass_.summary if isinstance(state.pass_, Edit) else f"{state.pass_.label} at {site.site}"
                yield told, (*site.created, *site.changed, *site.removed) or (site.site,)
