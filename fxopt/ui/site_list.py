"""The sites of a pass, each with a switch, copies of one block together; and its near misses."""

from __future__ import annotations

import streamlit as st

from fxopt.core import Exactness
from fxopt.ui.going import go_to_site
from fxopt.ui.markdown import code, counted, escaped, from_docstring
from fxopt.ui.session import Session
from fxopt.ui.switches import widget_of
from fxopt.workbench import MissState, PassState, SiteState
from fxopt.workbench.copies import Family, families_of

FEW = 6
"""The count of sites that are listed before "more" is asked for."""

EXACTNESS_WORDS = {
    Exactness.BITWISE: ("same bits", "green"),
    Exactness.ROUNDING: ("rounding", "blue"),
    Exactness.APPROXIMATE: ("approximate", "orange"),
    Exactness.CHANGES: ("changes results", "red"),
}


def site_list(session: Session, state: PassState) -> None:
    """Draw the summary of the pass, its sites and its near misses, the nearest first."""
    docs = st.expander("What it does, and why it is right", key=f"docs of {state.name}", on_change="rerun")
    if docs.open:  # drawn only then: highlighting its code takes a script that the first view would wait for
        docs.markdown(from_docstring(type(state.pass_).__doc__))
    families = _families(session, state)
    listed = FEW + session.listed
    places = [site.site for family in families[listed:] for site in family.sites]
    if session.selected in (*places, *(miss.site for miss in state.misses[listed:])):
        listed = max(len(families), len(state.misses))
    for family in families[:listed]:
        if len(family.sites) == 1:
            _site(session, state, family.sites[0])
        else:
            _family(session, state, family)
    if state.misses:
        st.markdown(f"**{counted(len(state.misses), 'near miss', 'near misses')}**, left alone")
    for miss in state.misses[:listed]:
        _miss(session, state, miss)
    more = max(len(families), len(state.misses)) - listed
    if more > 0:
        st.button(f"{more} more", key=f"more of {state.name}", type="tertiary", on_click=session.list_more)


def _families(session: Session, state: PassState) -> tuple[Family, ...]:
    bench = session.workbench
    key = (bench.choices, state.name)
    return session.remember("families", key, lambda: families_of(session.view_of("Original"), state.sites))


def _family(session: Session, state: PassState, family: Family) -> None:
    every = family.sites_on == len(family.sites)
    widget = widget_of(state.name, f"all {family.place}")
    switch = session.switch_for(widget, state.name, family.names, every)
    with st.container(gap=None, key=f"sites {session.styles[state.name].letter} at {family.place}"):
        with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
            st.checkbox(
                f"{family.place}, all {len(family.sites)} copies",
                value=switch.first,
                key=switch.key,
                label_visibility="collapsed",
            )
            label = f"{code(family.place)} ×{len(family.sites)}"
            _node_button(session, family.sites[0].site, f"family {state.name}", label)
        some = "" if family.sites_on in (0, len(family.sites)) else f"{family.sites_on} of {len(family.sites)} on. "
        st.caption(some + _explained(family.sites[0]))
        copies = st.expander("Each copy", key=f"copies of {state.name} at {family.place}", on_change="rerun")
        with copies:
            for site in family.sites:
                if copies.open:
                    _switch(session, state, site)
    for site in family.sites:
        if site.site == session.selected and not copies.open:
            _switch(session, state, site, current=True)


def _site(session: Session, state: PassState, site: SiteState) -> None:
    _switch(session, state, site, current=site.site == session.selected, told=_explained(site))


def _switch(session: Session, state: PassState, site: SiteState, current: bool = False, told: str = "") -> None:
    """Draw one site with its switch, in a frame where it is the current one."""
    switch = session.switch_for(widget_of(state.name, site.site), state.name, site.site, site.on)
    manner = "current " if current else ""
    with st.container(gap=None, key=f"{manner}site {session.styles[state.name].letter} at {site.site}"):
        with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
            st.checkbox(
                f"{state.name} at {site.site}",
                value=switch.first,
                key=switch.key,
                label_visibility="collapsed",
            )
            _node_button(session, site.site, f"site {state.name}")
        if told:
            st.caption(told)


def _explained(site: SiteState) -> str:
    word, color = EXACTNESS_WORDS[site.exactness]
    return f"{escaped(site.explanation)} · :{color}[{word}]"


def _miss(session: Session, state: PassState, miss: MissState) -> None:
    manner = "current " if miss.site == session.selected else ""
    with st.container(gap=None, key=f"{manner}miss {session.styles[state.name].letter} at {miss.site}"):
        _node_button(session, miss.site, f"miss {state.name}")
        st.caption(told_of_miss(miss))


def told_of_miss(miss: MissState) -> str:
    """Return a near miss as Markdown: the reason, actual against needed, and the remedy."""
    lines = [escaped(miss.reason)]
    if miss.actual or miss.needed:
        pairs = (("is", miss.actual), ("needs", miss.needed))
        lines.append(" · ".join(f"{word} **{escaped(value)}**" for word, value in pairs if value))
    if miss.remedy:
        lines.append(f"To change that: {escaped(miss.remedy)}")
    return "  \n".join(lines)


def _node_button(session: Session, name: str, prefix: str, label: str = "") -> None:
    st.button(
        label or code(name),
        key=f"{prefix} at {name}",
        type="tertiary",
        help="Show this node",
        on_click=go_to_site,
        args=(session, name),
    )
