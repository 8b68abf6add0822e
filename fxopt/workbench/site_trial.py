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
    for gm in (off, on):
        gm.recompile()
    return SiteTrial(off, on, frozenset(rewritten), resting)
