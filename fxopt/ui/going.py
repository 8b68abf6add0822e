"""Going to a node: it is selected, the modules that hide it are opened, and the graph moves to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fxopt.ui.acts import alone
from fxopt.ui.markdown import counted
from fxopt.ui.session import Session
from fxopt.ui.site_list import families_in
from fxopt.ui.view_state import Shown
from fxopt.ui.viewing import beside, newest_with, select
from fxopt.view.revealing import modules_hiding
from fxopt.workbench import PassState
from fxopt.workbench.representatives import Representative


def go_to(session: Session, name: str, told: str = "") -> None:
    """Select a node, and open the modules that hide it; those opened for the node before are folded again.

    A node that the shown graph lacks is stood in for by the one that its rewrite left there. `told` is a few words on
    the place among others, for the graph to show.
    """
    select(session, name)
    if session.view.together:
        session.view = replace(session.view, shown=newest_with(session, name))
    seen = next((one for one in _seen_for(session, name) if _views(session, one)), "")
    opened = frozenset[str]().union(*(modules_hiding(session.view_of(shown), seen) for shown in _views(session, seen)))
    session.view = replace(
        session.view,
        revealed=opened - session.view.unfolded,
        gone_to=(session.view.gone_to[0] + 1, seen, told),
        gone_at=session.workbench.choices,
    )


def go_to_site(session: Session, name: str) -> None:
    """Go to a site or near miss of the pass in focus, and tell which of how many it is."""
    state = session.looked_at_state
    go_to(session, name, _place_among(session, state, name) if state is not None else "")


def move_of(session: Session) -> tuple[str, str, str]:
    """Return the last move of the graph: its key, the node that it goes to, and a few words.

    In Diff, other choices of passes are a move to the change that the last act made, unless the visitor went to a node
    at them; so is the comparison of two states of the time line.
    """
    number, name, told = session.view.gone_to
    choices = session.workbench.choices
    if session.view.together != "Diff" or not session.is_compared or session.view.gone_at == choices:
        return str(number), name, told
    act = session.difference
    if act is not None:
        return f"{number} {hash((act.before, choices))} acts", next(iter(act.nodes), ""), told_compared(session)
    first = _newest_change(session)
    alike = f", one of {first.copies} copies" if first.copies > 1 else ""
    return f"{number} {hash(choices)}", first.nodes[0], f"{session.called(first.pass_name)}{alike}"


def _newest_change(session: Session) -> Representative:
    """Return the change by the last act of the time line; where that made none, the first change."""
    bench = session.workbench
    came = bench.acts[bench.acts_done - 1].came if bench.acts_done else frozenset()
    passes = {name for name, _ in came}
    return max(session.changes, key=lambda one: ((one.pass_name, one.site) in came, one.pass_name in passes))


def note_on(session: Session) -> str:
    """Return the note on the states that are compared, and on changes that Diff keeps folded."""
    left = session.opening.left
    folded = f"{counted(left, 'change')} more, folded: there is no room for all" if left else ""
    return "; ".join(filter(None, (told_compared(session), folded)))


def told_compared(session: Session) -> str:
    """Return the two compared states of the time line and their difference in a sentence; empty if there are none."""
    compared = session.compared_acts
    if compared is None:
        return ""
    if compared.is_one_act:
        return f"Act {compared.end} alone: {compared.difference.sentence}"
    start, end = (f"act {number}" if number else "the original" for number in (compared.start, compared.end))
    return f"From {start} to {end}: {compared.difference.sentence}"


@alone
def step_site(session: Session, by: int) -> None:
    """Go to the next (1) or previous (-1) site of the pass in focus, then to its near misses."""
    if places := session.looked_at_places:
        go_to_site(session, beside(places, session.view.selected, by))


def _views(session: Session, name: str) -> list[Shown]:
    """Return the graphs on the page that have the node."""
    shown: tuple[Shown, ...] = ("Original", "Now") if session.view.together else (session.view.shown,)
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
    copies = next(len(family.sites) for family in families_in(session, state) if name in family.names)
    alike = f", one of {copies} copies" if copies > 1 else ""
    return f"site {sites.index(name) + 1} of {len(sites)}{alike}"
