"""One line that tells of a pass: its sites, its near misses, its exactness, its time; in signs and in words."""

from __future__ import annotations

from collections.abc import Mapping

from fxopt.core import Exactness
from fxopt.ui.markdown import counted
from fxopt.ui.site_list import EXACTNESS_WORDS
from fxopt.workbench import PassState, SiteState

SIGNS = {
    Exactness.BITWISE: "=",
    Exactness.ROUNDING: "≈",
    Exactness.APPROXIMATE: "~",
    Exactness.CHANGES: "≠",
}


def line_in_words(state: PassState, elsewhere: Mapping[str, int]) -> str:
    """Return the line to be read aloud, and by whoever points at it.

    Args:
        elsewhere: the sites of this pass that later passes have rewritten, by the plain names of those.
    """
    parts = [f"{state.sites_on} of {counted(len(state.sites), 'site')} on" if state.sites else "no site"]
    parts += [f"{name} rewrites {count} of them instead" for name, count in elsewhere.items()]
    if state.misses:
        parts.append(counted(len(state.misses), "near miss", "near misses"))
    if state.sites:
        parts.append(EXACTNESS_WORDS[_least_exact(state.sites)][0])
    return "; ".join([*parts, f"{state.seconds * 1000:.0f} ms"])


def line_in_signs(state: PassState, elsewhere: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return the line to be seen at a glance: each sign with its kind."""
    count = f"{state.sites_on}/{len(state.sites)}" if state.sites else "–"
    parts = [("some" if state.sites_on else "none", count)]
    if elsewhere:
        parts.append(("elsewhere", "⤳"))
    if state.misses:
        parts.append(("near", f"{len(state.misses)} near"))
    if state.sites:
        exactness = _least_exact(state.sites)
        parts.append((exactness.name.lower(), SIGNS[exactness]))
    return [*parts, ("time", f"{state.seconds * 1000:.0f} ms")]


def _least_exact(sites: tuple[SiteState, ...]) -> Exactness:
    order = list(Exactness)
    return max((site.exactness for site in sites), key=order.index)
