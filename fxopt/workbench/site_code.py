"""The lines of generated code of one site, with the site off and with it on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fxopt.core import Pass
from fxopt.evidence import statements_of
from fxopt.workbench.site_trial import site_trial
from fxopt.workbench.workbench import Workbench


@dataclass(frozen=True)
class SiteCode:
    """Code before and after; empty on the side where the site has no lines."""

    before: str
    after: str


def site_code(wb: Workbench, pass_: Pass[Any] | str, site: str) -> SiteCode:
    """Return the statements that differ between the graph without a site and with it, everything else as it is.

    If only weights change, the lines are those of the changed nodes, the same before and after.
    """
    trial = site_trial(wb, pass_, site)
    before, after = statements_of(trial.off), statements_of(trial.on)
    names = trial.rewritten | {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    return SiteCode(*("\n".join(line for name, line in code.items() if name in names) for code in (before, after)))
