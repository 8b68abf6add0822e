"""What else would go off, named before it does: the visitor says whether it shall."""

from __future__ import annotations

import streamlit as st

from fxopt.ui.markdown import code, escaped
from fxopt.ui.session import Session

NAMED = 2
"""So many of the sites of each pass that would go off too are named."""


def ask_about(session: Session, name: str) -> None:
    """Draw the question, where there is one about the pass or edit of this name."""
    question = session.question
    if question is None or question.pass_name != name:
        return
    sites: dict[str, list[str]] = {}
    for name, site in question.resting:
        sites.setdefault(name, []).append(site)
    named = "; ".join(f"{escaped(name)} at {_some(of)}" for name, of in sites.items())
    verb = "rests" if len(question.resting) == 1 else "rest"
    st.warning(
        f"{named} {verb} on this and would go off too; what still matches comes on again.", icon=":material/link:"
    )
    with st.container(horizontal=True, gap="xsmall"):
        act = "Remove" if question.removes else "Turn off"
        st.button(f"{act} all the same", key="answer yes", type="primary", on_click=session.answer, args=(True,))
        st.button("Keep it on", key="answer no", on_click=session.answer, args=(False,))


def _some(sites: list[str]) -> str:
    """Some of the sites by name, and how many more there are."""
    more = f" and {len(sites) - NAMED} more" if len(sites) > NAMED else ""
    return ", ".join(map(code, sites[:NAMED])) + more
