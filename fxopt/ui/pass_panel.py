"""The passes: what each would do here, why not elsewhere, and its switch."""

from __future__ import annotations

import streamlit as st

from fxopt.core import Exactness
from fxopt.ui.markdown import code, escaped, from_docstring
from fxopt.ui.session import Session
from fxopt.view import PassStyle, styles_of
from fxopt.workbench import MissState, PassState, SiteState

FEW = 6
"""How many sites are listed before "more" is asked for."""

_EXACTNESS = {
    Exactness.BITWISE: ("same bits", "green"),
    Exactness.ROUNDING: ("rounding", "blue"),
    Exactness.APPROXIMATE: ("approximate", "orange"),
    Exactness.CHANGES: ("changes results", "red"),
}


def pass_panel(session: Session) -> None:
    """Draw a row for each pass, and below them the sites of the one that is looked at."""
    _history(session)
    states = session.workbench.states
    for style, state in zip(styles_of([state.name for state in states]), states):
        _row(session, style, state)
    for state in states:
        if state.name == session.looked_at:
            _sites(session, state)


def _history(session: Session) -> None:
    bench = session.workbench
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", key="history"):
        for label, act, possible in (("Undo", bench.undo, bench.can_undo), ("Redo", bench.redo, bench.can_redo)):
            st.button(
                label,
                icon=f":material/{label.lower()}:",
                key=f"icon {label.lower()}",
                help=f"{label} the last switch",
                on_click=act,
                disabled=not possible,
            )
        st.button(
            "Reverse all",
            key="reverse all",
            help="Switch every pass off",
            on_click=bench.reverse_all,
            disabled=not any(state.on for state in bench.states),
        )
        _badge(session)


def _badge(session: Session) -> None:
    bench = session.workbench
    if bench.is_changed:
        count = sum(state.sites_on for state in bench.states)
        text = f"{count} site{'s' if count != 1 else ''} on"
        st.badge(text, color="primary", help="Rewritten in the graph as it is now")
        return
    told = f"The fingerprint of graph, modules, weights and code is {bench.fingerprint}"
    if not session.is_restored:
        st.badge("not the original", icon=":material/error:", color="red", help=f"{told} no longer")
    elif session.was_changed:
        st.badge("restored, bit for bit", icon=":material/check:", color="green", help=f"{told} again")
    else:
        st.badge("original", color="gray", help=told)


def _row(session: Session, style: PassStyle, state: PassState) -> None:
    looked_at = session.looked_at == state.name
    idle = not state.sites and not state.misses and not state.error and not state.on
    manner = "looked at" if looked_at else "idle" if idle else "row"
    with st.container(border=True, gap=None, key=f"pass {style.letter} {manner}"):
        with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
            st.html(f'<span class="letter" style="--pass: {style.color}">{style.letter}</span>', width="content")
            _switch(session, state)
            st.space("stretch")
            st.button(
                f"Sites of {state.name}",
                icon=":material/visibility:" if looked_at else ":material/visibility_off:",
                key=f"icon sites of {state.name}",
                help="Hide its sites" if looked_at else "Show its sites, here and in the graph",
                type="tertiary",
                on_click=session.look_at,
                args=("" if looked_at else state.name,),
            )
        st.caption(_facts(state))
        if state.error:
            st.error(escaped(state.error), icon=":material/error:")


def _switch(session: Session, state: PassState) -> None:
    widget = f"on {state.name}"
    # Written only where it differs: a value that is set travels to the browser, and could overtake a click.
    if st.session_state.get(widget, False) != state.on:
        st.session_state[widget] = state.on
    st.toggle(
        state.name,
        key=widget,
        help=state.pass_.summary,
        disabled=not state.sites and not state.on,
        on_change=session.switch,
        args=(state.name, widget),
    )


def _facts(state: PassState) -> str:
    """The row's second line: sites on and matched, near misses, exactness, time."""
    if not state.sites and not state.misses:
        return "no site in this model"
    parts = [f"{state.sites_on} of {len(state.sites)} sites on" if state.sites else "no site"]
    if state.misses:
        parts.append(f"{len(state.misses)} near miss{'es' if len(state.misses) > 1 else ''}")
    if state.sites:
        word, color = _EXACTNESS[_least_exact(state.sites)]
        parts.append(f":{color}[{word}]")
    parts.append(f"{state.seconds * 1000:.0f} ms")
    return " · ".join(parts)


def _least_exact(sites: tuple[SiteState, ...]) -> Exactness:
    order = list(Exactness)
    return max((site.exactness for site in sites), key=order.index)


def _sites(session: Session, state: PassState) -> None:
    st.markdown(f"**Sites of {state.name}**")
    docs = st.expander("What it does, and why it is right", key=f"docs of {state.name}", on_change="rerun")
    if docs.open:  # drawn only then: highlighting its code takes a script that the first view would wait for
        docs.markdown(from_docstring(type(state.pass_).__doc__))
    listed = FEW + session.listed
    for site in state.sites[:listed]:
        _site(session, state, site)
    if state.misses:
        st.markdown("**Near misses**, left alone")
    for miss in state.misses[:listed]:
        _miss(session, state, miss)
    more = max(len(state.sites), len(state.misses)) - listed
    if more > 0:
        st.button(f"{more} more", key=f"more of {state.name}", type="tertiary", on_click=session.list_more)


def _site(session: Session, state: PassState, site: SiteState) -> None:
    widget = f"on {state.name} at {site.site}"
    if st.session_state.get(widget, False) != site.on:
        st.session_state[widget] = site.on
    with st.container(gap=None):
        with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
            st.checkbox(
                f"{site.site} on",
                key=widget,
                label_visibility="collapsed",
                on_change=session.switch_site,
                args=(state.name, site.site, widget),
            )
            _node_button(session, site.site, f"site {state.name}")
        st.caption(f"{escaped(site.explanation)} *({site.exactness.value})*")


def _miss(session: Session, state: PassState, miss: MissState) -> None:
    with st.container(gap=None):
        _node_button(session, miss.site, f"miss {state.name}")
        remedy = f"  \nTo change that: {escaped(miss.remedy)}" if miss.remedy else ""
        st.caption(escaped(miss.reason) + remedy)


def _node_button(session: Session, name: str, prefix: str) -> None:
    st.button(
        code(name),
        key=f"{prefix} at {name}",
        type="tertiary",
        help="Show this node",
        on_click=session.select,
        args=(name,),
    )
