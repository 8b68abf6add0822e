"""One graph as the browser draws it: its boxes with marks, selection, costs, and the pictures that acts lead to."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import partial

from fxopt.ui.costs import chosen_costs
from fxopt.ui.foreseen import End
from fxopt.ui.going import move_of, note_on
from fxopt.ui.graph_component import Bars, View, Way, graph_component
from fxopt.ui.marks import legend_of, marks_of, sites_to_play
from fxopt.ui.own_rule import NAME, legend_of_rule, marks_of_rule, shown_answer
from fxopt.ui.panel import redraw
from fxopt.ui.pictures import PackedLayout
from fxopt.ui.session import Session
from fxopt.ui.switches import widget_of
from fxopt.view import Mark, VisibleGraph, families
from fxopt.view.comparison import GONE
from fxopt.view.marks import resolve_sides
from fxopt.view.steps import Step, steps_of
from fxopt.workbench import SiteState

HEIGHT = "var(--graph-height)"
"""The height that frame.css leaves for the graph between the rows above and below it."""

SIDES: Mapping[str, View] = {"Original": "before", "Now": "after", "Diff": "both"}


def look_at_end(session: Session, end: End) -> Hashable:
    """Return all that decides the look of the graphs once acts of the visitor have led to `end`."""
    known = tuple(pass_.signature for pass_ in session.workbench.known)
    return session.view.pictured(*end), end, chosen_costs(), known, shown_answer(session)


def draw_pane(
    session: Session, picture: PackedLayout, shown: str, bars: Bars, path: Way | None, *, is_whole: bool
) -> None:
    """Draw one graph. If it is incomplete, a part of it is still being made."""
    linked = session.view.together == "Side by side"
    names, rule = [style.name for style in session.styles.values()], shown_answer(session)
    states = session.compared_states
    # The picture that is always there brings the layout, so that a change to another picture sends no layout.
    is_first = not linked or shown == "Now"
    key = "graph" if is_first else "graph before"
    entered = widget_of(*session.entered[:2]) if session.entered is not None else ""
    ends = session.foreseen.ends(session.workbench, session.view.looked_at, entered)
    looks = {act: (key, look_at_end(session, end)) for act, end in ends.items()}
    painted = graph_component(
        picture.data if is_first else None,
        picture.id,
        key=key,
        session=session.identity,
        marks=resolve_sides(_marks(session, picture, shown), [*names, *([NAME] if rule is not None else [])]),
        legend=(*legend_of(states, session.view.looked_at), *legend_of_rule(rule, len(names))),
        became=_became(session, picture) if shown == "Diff" else (),
        steps=_steps(session, picture) if shown == "Diff" else (),
        selected=_selected(session, picture, shown),
        gone_to=(*move_of(session), is_whole),
        note=note_on(session),
        height=HEIGHT,
        title=f"Graph of {session.opened.source.title}, {_titled(session, shown)}",
        subject=session.opened.source.key,
        side=SIDES[shown],
        related=families(
            [_touched(site) for state in states for site in state.sites if site.on],
            picture.graph,
        ),
        bars=bars,
        path=path,
        link="graph" if linked else None,
        foreseen=session.foreseen.pictures(looks),
        on_events=partial(redraw, session),
    )
    if is_whole:
        session.foreseen.painted(
            (key, look_at_end(session, (session.workbench.choices, session.view.looked_at))), painted
        )


def _titled(session: Session, shown: str) -> str:
    """Return the title of a pane; of a compared state of the time line, the act after which it is."""
    compared = session.compared_acts
    numbers = {"Original": compared.start, "Now": compared.end} if compared is not None else {}
    number = numbers.get(shown, 0)
    return f"after act {number}" if number else shown.lower()


def _touched(site: SiteState) -> tuple[str, ...]:
    return (*site.changed, *site.created, *site.removed, *(name + GONE for name in site.changed))


def _marks(
    session: Session, picture: PackedLayout, shown: str
) -> list[tuple[Mapping[str, Sequence[Mark]], VisibleGraph]]:
    """Return the marks of the original graph, of the current one, or of both, each with the boxes to find them in."""
    found: list[tuple[Mapping[str, Sequence[Mark]], VisibleGraph]] = []
    for original, boxes in ((True, picture.before), (False, picture.graph)):
        if (shown == "Now" and original) or (shown == "Original" and not original):
            continue
        marks = marks_of(session.compared_states, session.view.looked_at, original=original)
        if shown == "Diff":  # where the old node has a box beside the new one, the two tell of the change
            marks = {
                name: [mark for mark in of if mark.kind != "changed" or picture.graph.find(name + GONE) is None]
                for name, of in marks.items()
            }
        of_rule = marks_of_rule(shown_answer(session), len(session.styles))
        together = {name: (*marks.get(name, ()), *of_rule.get(name, ())) for name in {**marks, **of_rule}}
        found.append((together, boxes))
    return found


def _became(session: Session, picture: PackedLayout) -> tuple[tuple[int, int], ...]:
    """Return the boxes of nodes that are gone, each with that of a node which it became."""
    boxes = ((picture.before.find(old), picture.graph.find(new)) for old, new in session.descent)
    return tuple(dict.fromkeys((old, new) for old, new in boxes if old is not None and new is not None and old != new))


def _steps(session: Session, picture: PackedLayout) -> tuple[Step, ...]:
    """Return the sites that are on, as they run; or the difference of two compared states, where sites went off."""
    act = session.difference
    if act is not None and act.went:
        return steps_of([(act.sentence, act.nodes)], picture.before, picture.graph)
    sites = sites_to_play(map(session.in_comparison, session.workbench.states))
    return steps_of(sites, picture.before, picture.graph)


def _selected(session: Session, picture: PackedLayout, shown: str) -> str | None:
    """Return the name of the box that is selected; in Diff, of two boxes that of the graph it was pointed at in."""
    name = session.view.selected
    is_old = shown == "Diff" and session.view.shown == "Original" and picture.graph.find(name + GONE) is not None
    return (name + GONE if is_old else name) or None
