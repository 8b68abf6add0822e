"""Going to a node: it is selected, the modules that hide it are opened, and the graph moves to it."""

from __future__ import annotations

from collections.abc import Iterator

from fxopt.ui.markdown import counted
from fxopt.ui.session import Session, Shown, alone
from fxopt.view.revealing import modules_hiding
from fxopt.workbench import PassState, SiteState
from fxopt.workbench.copies import families_of


def go_to(session: Session, name: str, told: str = "") -> None:
    """Select a node, and open the modules that hide it; those opened for the node before are folded again.

    A node that the shown graph lacks is stood in for by the one that its rewrite left there. `told` is a few words on
    the place among others, for the graph to show.
    """
    session.select(name)
    if session.together:  # of two boxes, the new one
        session.shown = "Now" if name in session.view_of("Now").by_name else "Original"
    seen = next((one for one in _seen_for(session, name) if _views(session, one)), "")
    opened = frozenset[str]().union(*(modules_hiding(session.view_of(shown), seen) for shown in _views(session, seen)))
    session.revealed = opened - session.unfolded
    session.gone_to = (session.gone_to[0] + 1, seen, told)
    session.gone_at = session.workbench.choices


def go_to_site(session: Session, name: str) -> None:
    """Go to a site or near miss of the pass in focus, and tell which of how many it is."""
    state = session.looked_at_state
    go_to(session, name, _place_among(session, state, name) if state is not None else "")


def move_of(session: Session) -> tuple[str, str, str]:
    """Return the last move of the graph: its key, the node that it goes to, and a few words.

    In Diff, other choices of passes are a move to the first change, unless the visitor went to a node at them.
    """
    number, name, told = session.gone_to
    choices = session.workbench.choices
    if session.together != "Diff" or not session.workbench.is_changed or session.gone_at == choices:
        return str(number), name, told
    first = session.changes[0]
    alike = f", one of {first.copies} copies" if first.copies > 1 else ""
    return f"{number} {hash(choices)}", first.nodes[0], f"{first.pass_name}{alike}"


def note_on(session: Session) -> str:
    """Return the note on changes that Diff keeps folded; empty if it shows one of each kind."""
    left = session.opening.left
    return f"{counted(left, 'change')} more, folded: there is no room for all" if left else ""


@alone
def step_site(session: Session, by: int) -> None:
    """Go to the next (1) or previous (-1) site of the pass in focus, then to its near misses."""
    if name := session.site_beside(by):
        go_to_site(session, name)


def _views(session: Session, name: str) -> list[Shown]:
    """Return the graphs on the page that have the node."""
    shown: tuple[Shown, ...] = ("Original", "Now") if session.together else (session.shown,)
    return [one for one in shown if name in session.view_of(one).by_name]


def _seen_for(session: Session, name: str) -> Iterator[str]:
    """Yield the node, and then the nodes of the rewrites that took it away or made it."""
    yield name
    for state in session.workbench.states:
        for site in state.sites:
            if name in (site.site, *site.created, *site.changed, *site.removed):
                yield from (*site.changed, *site.created, *site.removed, *site.nodes)


def _place_among(session: Session, state: PassState, name: str) -> str:
    """Return the place of a site among those of its pass, or of a near miss among those.

    Copies of a repeated block are told of by their number, as one of them is open at a time.
    """
    misses = [miss.site for miss in state.misses]
    sites = [site.site for site in state.sites]
    if name not in sites:
        return f"near miss {misses.index(name) + 1} of {len(misses)}" if name in misses else ""
    copies = len(_family(session, state, name))
    alike = f", one of {copies} copies" if copies > 1 else ""
    return f"site {sites.index(name) + 1} of {len(sites)}{alike}"


def _family(session: Session, state: PassState, name: str) -> tuple[SiteState, ...]:
    key = (session.workbench.choices, state.name)
    families = session.remember("families", key, lambda: families_of(session.view_of("Original"), state.sites))
    return next(family.sites for family in families if name in family.names)
