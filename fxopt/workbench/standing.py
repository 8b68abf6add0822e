"""The place of a pass among the edits by hand: its sites there, beside those in the graph that the edits leave."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fxopt.core import Pass
from fxopt.edits import Edit
from fxopt.workbench.workbench import Workbench


@dataclass(frozen=True)
class Standing:
    """A pass that runs before edits by hand, and the difference that running behind them would make to its sites."""

    edits: tuple[str, ...]
    """The names of the edits that are on and run after the pass."""
    behind: int
    """The place just behind the last of them, for `Workbench.move`."""
    more: tuple[str, ...]
    """The anchors of sites in the graph as it is that the pass does not find at its place."""
    fewer: tuple[str, ...]
    """The anchors of sites that the pass finds at its place and leaves off, and that are gone in the graph as it is."""


def standing_of(wb: Workbench, pass_: Pass[Any] | str) -> Standing | None:
    """Return the standing of a pass before edits by hand; None where no edit that is on runs after it.

    Raises:
        FxoptError: the pass is unknown to the workbench.
    """
    state = wb.state_of(pass_)
    later = list(_later_edits(wb, wb.states.index(state)))
    if not later:
        return None
    now = {match.site for match in state.pass_.scan(wb.current).matches}
    there = {site.site for site in state.sites}
    return Standing(
        edits=tuple(name for _, name in later),
        behind=later[-1][0],
        more=tuple(sorted(now - there)),
        fewer=tuple(site.site for site in state.sites if not site.on and site.site not in now),
    )


def _later_edits(wb: Workbench, i: int) -> Iterator[tuple[int, str]]:
    for at in range(i + 1, len(wb.states)):
        state = wb.states[at]
        if isinstance(state.pass_, Edit) and state.sites_on:
            yield at, state.name
