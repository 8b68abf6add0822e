"""Two graphs that differ in one site, off and on: the basis of evidence of a site."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch.fx import GraphModule

from fxopt.core import Ledger, Pass
from fxopt.workbench.workbench import Workbench


@dataclass(frozen=True, eq=False)
class SiteTrial:
    """Two graphs that share all weights which the site leaves alone."""

    off: GraphModule
    on: GraphModule
    rewritten: frozenset[str]
    """The nodes that differ: those that the site, and sites that rest on it, remove, create or change."""
    resting: tuple[tuple[str, str], ...]
    """The sites that rest on it: pairs of pass name and site."""


def site_trial(wb: Workbench, pass_: Pass[Any] | str, site: str) -> SiteTrial:
    """Return the current graph with one site off and with it on, as copies; the workbench stays as it is.

    Raises:
        FxoptError: the pass is unknown to the workbench, or the site to the pass.
    """
    name = wb.state_of(pass_).name
    off, on = (wb.trial(wb.with_(pass_, site, on=on)) for on in (False, True))
    entries = [{entry.id: entry for entry in Ledger.entries_of(gm)} for gm in (off, on)]
    alone = [entry for mine, other in (entries, entries[::-1]) for key, entry in mine.items() if key not in other]
    rewritten = {node for entry in alone for node in (*entry.patch.removed, *entry.patch.created, *entry.patch.changed)}
    resting = tuple((entry.name, entry.site) for entry in alone if (entry.name, entry.site) != (name, site))
    _rename_as_in(on, off)
    for gm in (off, on):
        gm.recompile()
    return SiteTrial(off, on, frozenset(rewritten), resting)


def _rename_as_in(on: GraphModule, off: GraphModule) -> None:
    """Give the nodes that other sites made in `off` the names that they have in `on`.

    Without the site, nodes of its copies are numbered anew: `linear_merged_1` becomes `linear_merged`, which is another
    node in `on`.
    """
    made = {entry.id: tuple(entry.patch.created) for entry in Ledger.entries_of(on)}
    names: dict[str, str] = {}
    for entry in Ledger.entries_of(off):
        mine, theirs = tuple(entry.patch.created), made.get(entry.id, ())
        if len(mine) == len(theirs):
            names |= dict(zip(mine, theirs))
    kept = {node.name for node in off.graph.nodes} - names.keys()
    for node in off.graph.nodes:
        new = names.get(node.name, node.name)
        if new not in kept:
            node.name = new
