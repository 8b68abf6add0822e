"""The time line: every act of the visitor as a sentence, to point at, go to, and compare on its own."""

from __future__ import annotations

from collections.abc import Hashable

import streamlit as st

from fxopt.ui.acts import compare_act, end_of_act, go_to_act
from fxopt.ui.markdown import escaped
from fxopt.ui.session import Session
from fxopt.ui.tab import Tab


def _draw(session: Session) -> None:
    bench = session.workbench
    if not bench.acts:
        st.caption(
            "Nothing has been done yet. Each switch and edit will be a line here, to point at, go to, and compare."
        )
        return
    with st.container(gap=None, key="time line"):
        _line(session, 0, "The model as it was opened")
        for number, act in enumerate(bench.acts, start=1):
            _line(session, number, act.sentence)


def _line(session: Session, number: int, sentence: str) -> None:
    """Draw the state after so many acts: its sentence goes there, and the button beside it compares the act alone."""
    done = session.workbench.acts_done
    manner = "now" if number == done else "undone" if number > done else "done"
    with st.container(
        horizontal=True, vertical_alignment="center", gap="xsmall", key=f"act {number} {manner}", width="stretch"
    ):
        st.button(
            f"{number} · {'**' if number == done else ''}{escaped(sentence)}{'**' if number == done else ''}",
            key=f"go to act {number}",
            type="tertiary",
            help="The graph is here" if number == done else "Go to the graph after this act; later acts stay",
            on_click=go_to_act,
            args=(session, number),
        )
        if number and number == session.act_alone:
            st.button(
                f"End the comparison of act {number}",
                icon=":material/close:",
                key=f"icon end act {number}",
                help="Compare with the original again",
                type="tertiary",
                on_click=end_of_act,
                args=(session,),
            )
        elif number:
            st.button(
                f"Compare before and after act {number}",
                icon=":material/difference:",
                key=f"icon compare act {number}",
                help="Before and after this act alone, in Diff",
                type="tertiary",
                on_click=compare_act,
                args=(session, number),
            )
        if manner != "done":
            st.caption("now" if manner == "now" else "undone", width="content")


def _shows(session: Session) -> Hashable:
    bench = session.workbench
    return bench.choices, bench.acts_done, [act.sentence for act in bench.acts], session.act_alone


TIMELINE = Tab("Time line", _draw, _shows)
