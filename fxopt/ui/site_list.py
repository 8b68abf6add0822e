"""The sites of a pass, each with a switch, copies of one block together; and its near misses."""

from __future__ import annotations

import streamlit as st

from fxopt.core import Exactness
from fxopt.passes import others_installed
from fxopt.ui.glossary import GLOSSARY
from fxopt.ui.going import go_to_site
from fxopt.ui.markdown import code, counted, escaped, from_docstring
from fxopt.ui.session import Session
from fxopt.ui.switches import widget_of
from fxopt.ui.viewing import list_more
from fxopt.workbench import MissState, PassState, SiteState
from fxopt.workbench.copies import Family, families_of

FEW = 6
"""The count of sites that are listed before "more" is asked for."""

LONGEST = 31
"""The most characters of a name that stand in a line of the list."""

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
    if package := others_installed().package_of(state.pass_):
        st.caption(f"brought by the installed package {escaped(package)}")
    families = families_in(session, state)
    listed = FEW + session.view.listed
    places = [site.site for family in families[listed:] for site in family.sites]
    if session.view.selected in (*places, *(miss.site for miss in state.misses[listed:])):
        listed = max(len(families), len(state.misses))
    for family in families[:listed]:
        if len(family.sites) == 1:
            _site(session, state, family.sites[0])
        else:
            _family(session, state, family)
    if state.misses:
        told = f"**{counted(len(state.misses), 'near miss', 'near misses')}**, left alone"
        st.markdown(told, help=GLOSSARY["near miss"])
    for miss in state.misses[:listed]:
        _miss(session, state, miss)
    more = max(len(families), len(state.misses)) - listed
    if more > 0:
        st.button(f"{more} more", key=f"more of {state.name}", type="tertiary", on_click=list_more, args=(session,))


def families_in(session: Session, state: PassState) -> tuple[Family, ...]:
    """Return the sites of a pass as the list has them: copies in equal blocks together."""
    bench = session.workbench
    key = (bench.choices, state.name)
    return session.memo.remember("families", key, lambda: families_of(session.opened.view, state.sites))


def _family(session: Session, state: PassState, family: Family) -> None:
    every = family.sites_on == len(family.sites)
    widget = widget_of(state.name, f"all {family.place}")
    switch = session.switches.place(widget, state.name, family.names, every)
    with st.container(gap=None, key=f"sites {session.styles[state.name].letter} at {family.place}"):
        with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
            st.checkbox(
                f"{family.place}, all {len(family.sites)} copies",
                value=switch.first,
                key=switch.key,
                label_visibility="collapsed",
            )
            some = family.sites_on not in (0, len(family.sites))
            count = f"{family.sites_on} of {len(family.sites)} on" if some else f"×{len(family.sites)}"
            label = f"{code(with_its_end(family.place))} {count}"
            told = f"{family.sites_on} of {len(family.sites)} on. {_explained(family.sites[0])}"
            _node_button(session, family.sites[0].site, f"family {state.name}", told, label)
        copies = st.expander("Each copy", key=f"copies of {state.name} at {family.place}", on_change="rerun")
        with copies:
            for site in family.sites:
                if copies.open:
                    _site(session, state, site)
    for site in family.sites:
        if site.site == session.view.selected and not copies.open:
            _site(session, state, site)


def _site(session: Session, state: PassState, site: SiteState) -> None:
    """Draw one site in a line with its switch; the current one has a frame, and says its sentence below."""
    current = site.site == session.view.selected
    switch = session.switches.place(widget_of(state.name, site.site), state.name, site.site, site.on)
    manner = "current " if current else ""
    with st.container(gap=None, key=f"{manner}site {session.styles[state.name].letter} at {site.site}"):
        with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
            st.checkbox(
                f"{state.pass_.label} at {site.site}",
                value=switch.first,
                key=switch.key,
                label_visibility="collapsed",
            )
            _node_button(session, site.site, f"site {state.name}", _explained(site))
        if current:
            st.caption(_explained(site))


def _explained(site: SiteState) -> str:
    word, color = EXACTNESS_WORDS[site.exactness]
    return f"{escaped(site.explanation)} · :{color}[{word}]"


def _miss(session: Session, state: PassState, miss: MissState) -> None:
    """Draw a near miss in a line with its reason; the current one has its need as well."""
    current = miss.site == session.view.selected
    manner = "current " if current else ""
    with st.container(gap=None, key=f"{manner}miss {session.styles[state.name].letter} at {miss.site}"):
        with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
            _node_button(session, miss.site, f"miss {state.name}", told_of_miss(miss))
            if not current:
                st.caption(escaped(miss.reason))
        if current:
            st.caption(told_of_miss(miss))


def told_of_miss(miss: MissState) -> str:
    """Return a near miss as Markdown: the reason, actual against needed, and the remedy."""
    lines = [escaped(miss.reason)]
    if miss.actual or miss.needed:
        pairs = (("found", miss.actual), ("needed", miss.needed))
        lines.append(" · ".join(f"{word} **{escaped(value)}**" for word, value in pairs if value))
    if miss.remedy:
        lines.append(f"To change that: {escaped(miss.remedy)}")
    return "  \n".join(lines)


def with_its_end(name: str) -> str:
    """Return a name that fits a line; of a long one the end, which tells it from its neighbors.

    >>> with_its_end("stem_norm"), with_its_end("encoder_layer_11_attention_self_query_key")
    ('stem_norm', '…er_11_attention_self_query_key')
    """
    return name if len(name) <= LONGEST else f"…{name[1 - LONGEST :]}"


def _node_button(session: Session, name: str, prefix: str, told: str, label: str = "") -> None:
    st.button(
        label or code(with_its_end(name)),
        key=f"{prefix} at {name}",
        type="tertiary",
        help=f"{code(name)}  \n{told}" if len(name) > LONGEST else told,
        on_click=go_to_site,
        args=(session, name),
    )
