"""An edit made by hand, as a row among the passes: its switch, its effect, and a button that removes it."""

from __future__ import annotations

import streamlit as st

from fxopt.edits import Edit
from fxopt.ui.acts import remove
from fxopt.ui.markdown import escaped
from fxopt.ui.question import ask_about
from fxopt.ui.session import Session
from fxopt.ui.site_list import EXACTNESS_WORDS, told_of_miss
from fxopt.ui.switches import widget_of
from fxopt.ui.viewing import select
from fxopt.view import PassStyle
from fxopt.workbench import PassState


def edit_row(session: Session, style: PassStyle, state: PassState) -> None:
    edit = state.pass_
    assert isinstance(edit, Edit), f"{state.name} is no edit"
    manner = "looked at" if session.view.looked_at == state.name else "row" if state.sites else "idle"
    with st.container(border=True, gap="xxsmall", key=f"pass {style.letter} {manner}"):
        with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
            st.html(f'<span class="letter" style="--pass: {style.color}">{style.letter}</span>', width="content")
            switch = session.switches.place(widget_of(state.name), state.name, None, state.on)
            # The words stand beside it: a label is read out as it is written, with the backslashes of Markdown.
            st.toggle(edit.summary, value=switch.first, key=switch.key, label_visibility="collapsed")
            st.button(
                escaped(edit.summary),
                key=f"show {state.name}",
                help="Show its node",
                type="tertiary",
                on_click=select,
                args=(session, edit.node),
            )
        st.caption(f"By hand · {_told(edit, state)}")
        ask_about(session, state.name)
        st.button("Remove", key=f"remove {state.name}", type="tertiary", on_click=remove, args=(session, state.name))


def _told(edit: Edit, state: PassState) -> str:
    """Return the details beyond the title: the state before, the change of shapes, or the reason why it fails."""
    if state.error:
        return escaped(state.error)
    for site in state.sites:
        word, color = EXACTNESS_WORDS[site.exactness]
        more = site.explanation.removeprefix(edit.title).removeprefix(";").strip()
        return " · ".join([*([escaped(more)] if more else []), f":{color}[{word}]"])
    for miss in state.misses:
        return f"It does not hold now: {told_of_miss(miss)}"
    return "Its node is not in the graph now."
