"""The question before a switch that would turn other sites off too: it names them, and the visitor decides."""

from __future__ import annotations

import streamlit as st

from fxopt.ui.acts import answer
from fxopt.ui.markdown import code, escaped
from fxopt.ui.session import Session

NAMED = 2
"""The most sites of each pass that the question names."""


def ask_about(session: Session, name: str) -> None:
    """Draw the question about the pass or edit of this name, if there is one."""
    question = session.view.question
    if question is None or question.pass_name != name:
        return
    sites: dict[str, list[str]] = {}
    for name, site in question.resting:
        sites.setdefault(name, []).append(site)
    named = "; ".join(f"{escaped(session.called(name))} at {_some(of)}" for name, of in sites.items())
    verb = "rests" if len(question.resting) == 1 else "rest"
    st.warning(
        f"{named} {verb} on this and would go off too; what still matches comes on again.", icon=":material/link:"
    )
    with st.container(horizontal=True, gap="xsmall"):
        act = "Remove" if question.removes else "Turn off"
        st.button(f"{act} all the same", key="answer yes", type="primary", on_click=answer, args=(session, True))
        st.button("Keep it on", key="answer no", on_click=answer, args=(session, False))


def _some(sites: list[str]) -> str:
    """Return some of the sites by name, and the count of the rest."""
    more = f" and {len(sites) - NAMED} more" if len(sites) > NAMED else ""
    return ", ".join(map(code, sites[:NAMED])) + more
