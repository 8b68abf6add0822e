"""Rewritten nodes to show, one site for all of its copies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fxopt.view import GraphView
from fxopt.workbench.copies import families_of
from fxopt.workbench.states import PassState


@dataclass(frozen=True)
class Representative:
    """A site that is on and stands for its copies: the names of the nodes that it touched, those it made first."""

    pass_name: str
    site: str
    nodes: tuple[str, ...]
    copies: int
    """The number of sites that it stands for, itself included."""


def representatives(states: Iterable[PassState], before: GraphView, after: GraphView) -> tuple[Representative, ...]:
    """Return one site for each family of copies that have sites on, in the order of the passes and of the graph."""
    found = []
    for state in states:
        sites = [site for site in state.sites if site.on]
        for family in families_of(before, sites, after):
            first = family.sites[0]
            nodes = (*first.created, *first.changed, *first.removed) or (first.site,)
            found.append(Representative(state.name, first.site, nodes, len(family.sites)))
    return tuple(found)
