"""One line that tells of a pass: its name, its sites, its near misses, its exactness, its time."""

from __future__ import annotations

import html
from collections.abc import Mapping

from fxopt.core import Exactness
from fxopt.ui.markdown import counted, sendable
from fxopt.ui.site_list import EXACTNESS_WORDS
from fxopt.workbench import PassState, SiteState

SIGNS = {
    Exactness.BITWISE: "=",
    Exactness.ROUNDING: "≈",
    Exactness.APPROXIMATE: "~",
    Exactness.CHANGES: "≠",
}


def told_in_a_line(state: PassState, elsewhere: Mapping[str, int]) -> str:
    """Return the line as HTML: short signs to see, and the same in words to hover over and to read aloud.

    Args:
        elsewhere: the sites of this pass that later passes have rewritten, by the plain names of those.
    """
    words = "; ".join(_words(state, elsewhere))
    named = html.escape(sendable(state.pass_.label))
    about = html.escape(sendable(f"{state.name}: {state.pass_.summary} — {words}"), quote=True)
    return (
        f'<div class="pass-line" title="{about}"><span class="pass-name">{named}</span>'
        f'<span class="spoken">{html.escape(words)}</span>'
        f'<span class="pass-figures" aria-hidden="true">{_figures(state, elsewhere)}</span></div>'
    )


def _words(state: PassState, elsewhere: Mapping[str, int]) -> list[str]:
    parts = [f"{state.sites_on} of {counted(len(state.sites), 'site')} on" if state.sites else "no site"]
    parts += [f"{name} rewrites {count} of them instead" for name, count in elsewhere.items()]
    if state.misses:
        parts.append(counted(len(state.misses), "near miss", "near misses"))
    if state.sites:
        parts.append(EXACTNESS_WORDS[_least_exact(state.sites)][0])
    return [*parts, f"{state.seconds * 1000:.0f} ms"]


def _figures(state: PassState, elsewhere: Mapping[str, int]) -> str:
    count = f"{state.sites_on}/{len(state.sites)}" if state.sites else "–"
    parts = [f'<b class="{"some" if state.sites_on else "none"}">{count}</b>']
    if elsewhere:
        parts.append('<i class="elsewhere">⤳</i>')
    if state.misses:
        parts.append(f'<i class="near">{len(state.misses)} near</i>')
    if state.sites:
        exactness = _least_exact(state.sites)
        parts.append(f'<i class="{exactness.name.lower()}">{SIGNS[exactness]}</i>')
    return "".join([*parts, f'<i class="time">{state.seconds * 1000:.0f} ms</i>'])


def _least_exact(sites: tuple[SiteState, ...]) -> Exactness:
    order = list(Exactness)
    return max((site.exactness for site in sites), key=order.index)
