"""The list of passes: sites, reasons for misses, switch, and place in the order of each."""

from __future__ import annotations

from collections.abc import Hashable

import streamlit as st

from fxopt.edits import Edit
from fxopt.passes import others_installed
from fxopt.ui.acts import move
from fxopt.ui.edit_list import edit_row
from fxopt.ui.empty_model import nothing_to_do
from fxopt.ui.folders import is_served_here
from fxopt.ui.markdown import code, counted, escaped
from fxopt.ui.pass_line import told_in_a_line
from fxopt.ui.preview_line import preview_line
from fxopt.ui.question import ask_about
from fxopt.ui.session import Session
from fxopt.ui.site_list import FEW, site_list
from fxopt.ui.switches import widget_of
from fxopt.ui.viewing import look_at, select
from fxopt.view import PassStyle
from fxopt.workbench import PassState
from fxopt.workbench.standing import standing_of
from fxopt.workbench.takeover import taken_over


def shown_by_passes(session: Session) -> Hashable:
    """Return the state that decides the picture of the list of passes."""
    bench, view = session.workbench, session.view
    selected = view.selected if view.selected in session.looked_at_places else ""
    history = bench.choices, bench.can_undo, bench.can_redo
    return history, view.looked_at, view.listed, view.question, selected, session.outcome_of_recipe


def pass_panel(session: Session) -> None:
    """Draw a row for each pass; the one in focus is open and shows its sites."""
    preview_line(session)
    styles = session.styles
    passes = session.listed_passes
    idle = [state for state in passes if _is_idle(state) and state.name != session.view.looked_at]
    if not any(state.sites for state in passes):
        nothing_to_do(session)
    for state in session.workbench.states:  # as they run
        if isinstance(state.pass_, Edit):
            edit_row(session, styles[state.name], state)
        elif state not in idle:
            _row(session, styles[state.name], state)
    if idle:
        _without_a_site(session, idle)
    if is_served_here():  # the reason may name files of the server, whose terminal has it as well
        for refused in others_installed().refused:
            st.caption(f":material/block: {escaped(str(refused))}")


def _is_idle(state: PassState) -> bool:
    return not (state.sites or state.misses or state.error or state.on)


def _without_a_site(session: Session, states: list[PassState]) -> None:
    """Draw the passes that find nothing here in one line: each tells its needs, and opens as a row."""
    with st.container(horizontal=True, vertical_alignment="center", gap="xxsmall", key="without a site"):
        st.caption("No site in this model:", width="content")
        for state in states:
            st.button(
                escaped(state.pass_.label),
                key=f"idle {state.name}",
                help=f"{code(state.name)} finds no site. {escaped(_need_of(state))}",
                type="tertiary",
                on_click=look_at,
                args=(session, state.name),
            )


def _need_of(state: PassState) -> str:
    needs = state.pass_.needs
    return f"It needs {needs}." if needs else "It finds nothing in this model."


def _row(session: Session, style: PassStyle, state: PassState) -> None:
    looked_at = session.view.looked_at == state.name
    manner = "looked at" if looked_at else "row"
    with st.container(border=True, gap="xxsmall", key=f"pass {style.letter} {manner}"):
        with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
            grip = f'<span class="letter grip" style="--pass: {style.color}">{style.letter}</span>'
            st.html(grip, width="content")
            _switch(session, state)
            taken = taken_over(session.workbench.states, state)
            st.html(told_in_a_line(state, {session.called(name): count for name, count in taken.items()}))
            st.button(
                f"Sites of {state.pass_.label}",
                icon=":material/expand_less:" if looked_at else ":material/expand_more:",
                key=f"icon sites of {state.name}",
                help="Hide its sites" if looked_at else "Show its sites, here and in the graph",
                type="tertiary",
                on_click=look_at,
                args=(session, "" if looked_at else state.name),
            )
        if state.error:
            _failure(session, state)
        ask_about(session, state.name)
        if looked_at:
            _order(session, state)
            for name, count in taken.items():
                st.caption(f"{escaped(session.called(name))} is on, and rewrites {count} of these sites instead.")
            if _is_idle(state):
                st.caption(escaped(_need_of(state)))
            site_list(session, state)


def _switch(session: Session, state: PassState) -> None:
    switch = session.switches.place(widget_of(state.name), state.name, None, state.on)
    st.toggle(
        state.pass_.label,
        value=switch.first,
        key=switch.key,
        disabled=not state.sites and not state.on,
        label_visibility="collapsed",
    )


def _failure(session: Session, state: PassState) -> None:
    """Draw the failure of a pass that is on: the reason, the node, and a report to copy."""
    st.error(escaped(state.error), icon=":material/error:")
    if state.failed_at:
        st.button(
            f"Show {code(state.failed_at)}",
            key=f"failed at of {state.name}",
            type="tertiary",
            on_click=select,
            args=(session, state.failed_at),
        )
    if not is_served_here():
        return  # the report names files of the server
    report = st.expander("Report to copy", key=f"report of {state.name}", on_change="rerun")
    if report.open:
        report.code(state.report, language=None, wrap_lines=True, height=220)


def _order(session: Session, state: PassState) -> None:
    """Draw the place of the pass in the order, and buttons to move it."""
    names = [other.name for other in session.workbench.states]
    at = names.index(state.name)
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
        st.caption(f"runs {_ordinal(at + 1)} of {len(names)}")
        for label, by, icon, possible in (
            ("Run earlier", -1, "arrow_upward", at > 0),
            ("Run later", 1, "arrow_downward", at + 1 < len(names)),
        ):
            st.button(
                f"{label}: {state.pass_.label}",
                icon=f":material/{icon}:",
                key=f"icon {label.lower()} {state.name}",
                help=label,
                type="tertiary",
                disabled=not possible,
                on_click=move,
                args=(session, state.name, by),
            )
    _behind_the_edits(session, state)


def _behind_the_edits(session: Session, state: PassState) -> None:
    """Tell the sites that a pass would have behind the edits that run after it, with a button that moves it there."""
    bench = session.workbench
    key = (bench.choices, state.name)
    standing = session.memo.remember("standing", key, lambda: standing_of(bench, state.name))
    if standing is None:
        return
    parts = [(standing.more, "more"), (standing.fewer, "fewer")]
    told = " and ".join(f"{counted(len(sites), 'site')} {word}" for sites, word in parts if sites)
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", key=f"before edits {state.name}"):
        edits = counted(len(standing.edits), "edit by hand", "edits by hand")
        behind = "it" if len(standing.edits) == 1 else "them"
        st.caption(f"It runs before {edits}; after {behind}, the pass would find {told or 'the same sites'}.")
        if told:
            st.button(
                "Run it after the edits",
                key=f"run behind the edits {state.name}",
                help=", ".join(map(code, (*standing.more, *standing.fewer)[:FEW])),
                type="tertiary",
                on_click=move,
                args=(session, state.name, standing.behind - bench.states.index(state)),
            )


def _ordinal(number: int) -> str:
    """Return a place in words.

    >>> [_ordinal(number) for number in (1, 2, 3, 4, 11, 22)]
    ['1st', '2nd', '3rd', '4th', '11th', '22nd']
    """
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
