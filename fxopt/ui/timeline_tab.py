"""The time line: every act of the visitor as a sentence, to point at and go to; any two of its states are compared."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial

import streamlit as st

from fxopt.ui.acts import compare_acts, end_comparison, go_to_act
from fxopt.ui.going import told_compared
from fxopt.ui.markdown import escaped
from fxopt.ui.session import Session
from fxopt.ui.tab import Tab

_ENDS = "Compare from", "Compare to"
_CHOICES = "choices of two states"
"""The number of times that the choices of two states were made anew: they are part of its key."""


def _draw(session: Session) -> None:
    bench = session.workbench
    if not bench.acts:
        st.caption(
            "Nothing has been done yet. Each switch and edit will be a line here, to point at, go to, and compare."
        )
        return
    sentences = ["The model as it was opened", *(act.sentence for act in bench.acts)]
    _two_states(session, sentences)
    with st.container(gap=None, key="time line"):
        for number, sentence in enumerate(sentences):
            _line(session, number, sentence)


def _two_states(session: Session, sentences: list[str]) -> None:
    """Draw the choice of the two states that are compared: any two, the present one need not be among them."""
    shown = _compared(session)
    # Other widgets where other states are compared than those chosen here. Where the server sets the value of one, the
    # browser may send its old value once more, as if the visitor had chosen it.
    if any(st.session_state.get(key, at) != at for key, at in zip(_keys(), shown)):
        st.session_state[_CHOICES] = st.session_state.get(_CHOICES, 0) + 1
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", key="two states"):
        for key, at, words, word in zip(_keys(), shown, _ENDS, ("Compare", "with")):
            st.selectbox(
                words,
                range(len(sentences)),
                index=at,
                key=key,
                format_func=partial(_named, word, sentences),
                label_visibility="collapsed",
                help=f"{words} the graph after this entry, in Diff or side by side, with the figures of both",
                on_change=partial(_compare, session, shown),
            )
    if told := told_compared(session):
        st.caption(escaped(told))


def _keys() -> tuple[str, str]:
    """Return the keys of the two choices."""
    times = st.session_state.get(_CHOICES, 0)
    return f"compare from {times}", f"compare to {times}"


def _named(word: str, sentences: list[str], number: int) -> str:
    return f"{word} {number} · {sentences[number]}"


def _compared(session: Session) -> tuple[int, int]:
    """Return the two states that the picture compares."""
    compared = session.compared_acts
    return (compared.start, compared.end) if compared is not None else (0, session.workbench.acts_done)


def _compare(session: Session, before: tuple[int, int]) -> None:
    """Compare the two states that are chosen now, instead of those `before`; one that is chosen twice swaps them."""
    start, end = (st.session_state[key] for key in _keys())
    if start == end:
        start, end = reversed(before)
    compare_acts(session, start, end)


def _line(session: Session, number: int, sentence: str) -> None:
    """Draw the state after so many acts: its sentence goes there, and the button beside it compares the act alone."""
    done, compared = session.workbench.acts_done, session.compared_acts
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
        if compared is not None and number == compared.end:
            st.button(
                f"End the comparison of act {number}",
                icon=":material/close:",
                key=f"icon end act {number}",
                help="Compare with the original again, where the graph was before",
                type="tertiary",
                on_click=end_comparison,
                args=(session,),
            )
        elif number:
            st.button(
                f"Compare before and after act {number}",
                icon=":material/difference:",
                key=f"icon compare act {number}",
                help="Before and after this act alone",
                type="tertiary",
                on_click=compare_acts,
                args=(session, number - 1, number),
            )
        if manner != "done":
            st.caption("now" if manner == "now" else "undone", width="content")


def _shows(session: Session) -> Hashable:
    bench = session.workbench
    return bench.choices, bench.acts_done, [act.sentence for act in bench.acts], session.compared_acts


TIMELINE = Tab("Time line", _draw, _shows)
