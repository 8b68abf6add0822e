"""The list of passes: sites, reasons for misses, switch, and place in the order of each."""

from __future__ import annotations

from collections.abc import Hashable

import streamlit as st

from fxopt.core import Exactness
from fxopt.ui.edit_list import edit_row
from fxopt.ui.markdown import code, counted, escaped
from fxopt.ui.preview_line import preview_line
from fxopt.ui.question import ask_about
from fxopt.ui.recipe_form import recipe_form
from fxopt.ui.session import Session
from fxopt.ui.site_list import EXACTNESS_WORDS, site_list
from fxopt.ui.switches import widget_of
from fxopt.view import PassStyle
from fxopt.workbench import PassState, SiteState


def shown_by_passes(session: Session) -> Hashable:
    """Return the state that decides the picture of the list of passes."""
    bench, state = session.workbench, session.looked_at_state
    places = [*(site.site for site in state.sites), *(miss.site for miss in state.misses)] if state else []
    return (
        bench.choices, bench.can_undo, bench.can_redo, session.looked_at, session.listed, session.only_acting,
        session.question, session.selected if session.selected in places else "", session.outcome_of_recipe,
    )  # fmt: skip


def pass_panel(session: Session) -> None:
    """Draw a row for each pass; the one in focus is open and shows its sites."""
    _history(session)
    _filter(session)
    preview_line(session)
    styles = session.styles
    edits = session.edits
    passes = session.listed_passes
    for state in passes:
        _row(session, styles[state.name], state)
    if not passes:
        st.info("No pass finds a site in this model. Show them all to read why.", icon=":material/filter_alt:")
    if edits:
        st.markdown("**Edits by hand**")
    for state in edits:
        edit_row(session, styles[state.name], state)


def _history(session: Session) -> None:
    bench = session.workbench
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", key="history"):
        for label, keys, act, possible in (
            ("Undo", "Ctrl+Z", session.undo, bench.can_undo),
            ("Redo", "Ctrl+Y", session.redo, bench.can_redo),
        ):
            st.button(
                label,
                icon=f":material/{label.lower()}:",
                key=f"icon {label.lower()}",
                help=f"{label} the last switch or edit ({keys})",
                on_click=act,
                disabled=not possible,
            )
        st.button(
            "Reverse all",
            key="reverse all",
            help="Switch every pass and edit off",
            on_click=session.reverse_all,
            disabled=not any(state.on for state in bench.states),
        )
        _badge(session)


def _badge(session: Session) -> None:
    bench = session.workbench
    if bench.is_changed:
        text = f"{counted(sum(state.sites_on for state in bench.states), 'site')} on"
        st.badge(text, color="primary", help="Rewritten in the graph as it is now")
        return
    told = f"The fingerprint of graph, modules, weights and code is {bench.fingerprint}"
    if not session.is_restored:
        st.badge("not the original", icon=":material/error:", color="red", help=f"{told} no longer")
    elif session.was_changed:
        st.badge("restored, bit for bit", icon=":material/check:", color="green", help=f"{told} again")
    else:
        st.badge("original", color="gray", help=told)


def _filter(session: Session) -> None:
    if st.session_state.get("only acting", False) != session.only_acting:
        st.session_state["only acting"] = session.only_acting
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.checkbox(
            "Only passes that act",
            key="only acting",
            on_change=_list_only_acting,
            args=(session,),
        )
        recipe_form(session)


def _list_only_acting(session: Session) -> None:
    session.only_acting = st.session_state["only acting"]


def _row(session: Session, style: PassStyle, state: PassState) -> None:
    looked_at = session.looked_at == state.name
    idle = not state.sites and not state.misses and not state.error and not state.on
    manner = "looked at" if looked_at else "idle" if idle else "row"
    with st.container(border=True, gap="xxsmall", key=f"pass {style.letter} {manner}"):
        with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
            grip = f'<span class="letter grip" style="--pass: {style.color}">{style.letter}</span>'
            st.html(grip, width="content")
            _switch(session, state)
            st.button(
                f"Sites of {state.name}",
                icon=":material/expand_less:" if looked_at else ":material/expand_more:",
                key=f"icon sites of {state.name}",
                help="Hide its sites" if looked_at else "Show its sites, here and in the graph",
                type="tertiary",
                on_click=session.look_at,
                args=("" if looked_at else state.name,),
            )
        st.caption(_facts(state), help=state.pass_.summary)  # beside the switch: a click on its help would move it
        if state.error:
            _failure(session, state)
        ask_about(session, state.name)
        if looked_at:
            _order(session, state)
            site_list(session, state)


def _switch(session: Session, state: PassState) -> None:
    switch = session.switch_for(widget_of(state.name), state.name, None, state.on)
    st.toggle(
        state.name,
        value=switch.first,
        key=switch.key,
        disabled=not state.sites and not state.on,
    )


def _facts(state: PassState) -> str:
    """Return the row's second line: sites on and matched, near misses, exactness, time."""
    if not state.sites and not state.misses:
        return "no site in this model"
    parts = [f"{state.sites_on} of {counted(len(state.sites), 'site')} on" if state.sites else "no site"]
    if state.misses:
        parts.append(counted(len(state.misses), "near miss", "near misses"))
    if state.sites:
        word, color = EXACTNESS_WORDS[_least_exact(state.sites)]
        parts.append(f":{color}[{word}]")
    parts.append(f"{state.seconds * 1000:.0f} ms")
    return " · ".join(parts)


def _least_exact(sites: tuple[SiteState, ...]) -> Exactness:
    order = list(Exactness)
    return max((site.exactness for site in sites), key=order.index)


def _failure(session: Session, state: PassState) -> None:
    """Draw the failure of a pass that is on: the reason, the node, and a report to copy."""
    st.error(escaped(state.error), icon=":material/error:")
    if state.failed_at:
        st.button(
            f"Show {code(state.failed_at)}",
            key=f"failed at of {state.name}",
            type="tertiary",
            on_click=session.select,
            args=(state.failed_at,),
        )
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
                f"{label}: {state.name}",
                icon=f":material/{icon}:",
                key=f"icon {label.lower()} {state.name}",
                help=label,
                type="tertiary",
                disabled=not possible,
                on_click=session.move,
                args=(state.name, by),
            )


def _ordinal(number: int) -> str:
    """Return a place in words.

    >>> [_ordinal(number) for number in (1, 2, 3, 4, 11, 22)]
    ['1st', '2nd', '3rd', '4th', '11th', '22nd']
    """
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
