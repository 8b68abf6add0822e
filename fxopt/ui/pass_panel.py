"""The list of passes: one component, which the browser draws; and below it the text on the pass in focus."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial

import streamlit as st

from fxopt.passes import others_installed
from fxopt.ui.empty_model import nothing_to_do
from fxopt.ui.folders import is_served_here
from fxopt.ui.markdown import escaped, from_docstring
from fxopt.ui.modules import joined
from fxopt.ui.panel import panel, redraw
from fxopt.ui.pass_acts import KEY, heard_in_list, obey_list
from fxopt.ui.pass_list import described_list
from fxopt.ui.preview_line import preview_line
from fxopt.ui.session import Session
from fxopt.workbench import PassState

_list = st.components.v2.component("fxopt_passes", js=joined("passes"), isolate_styles=False)


def pass_panel(session: Session) -> None:
    """Draw the preview of the pass that is pointed at, the list, and the text on the pass in focus."""
    preview_line(session)
    panel(session, "pass panel", _draw, _shown_by_list)
    panel(session, "pass text panel", _text, _shown_by_text)
    if is_served_here():  # the reason may name files of the server, whose terminal has it as well
        for refused in others_installed().refused:
            st.caption(f":material/block: {escaped(str(refused))}")


def _shown_by_list(session: Session) -> Hashable:
    bench, view = session.workbench, session.view
    selected = view.selected if view.selected in session.looked_at_places else ""
    focus = view.looked_at, view.listed, view.copies, view.question, selected
    return bench.choices, focus, session.acted, heard_in_list().number


def _draw(session: Session) -> None:
    session.listen("pass list", obey_list)
    with st.container(gap="xsmall"):
        if not any(state.sites for state in session.listed_passes):
            nothing_to_do(session)
        data = {"session": session.identity, "heard": heard_in_list().number, **described_list(session)}
        _list(key=KEY, data=data, on_acts_change=partial(redraw, session))


def _shown_by_text(session: Session) -> Hashable:
    states = [session.looked_at_state, *session.workbench.states]
    return tuple(
        (state.name, state.report) for state in states if state is not None and (state is states[0] or state.error)
    )


def _text(session: Session) -> None:
    """Draw the docstring of the pass in focus, and the reports of passes that have failed."""
    state = session.looked_at_state
    with st.container(gap="xsmall", key="about the pass"):
        if state is not None and not session.is_edit(state.name):
            _docs(state)
        if is_served_here():  # a report names files of the server
            for failed in session.workbench.states:
                if failed.error:
                    _report(failed)


def _docs(state: PassState) -> None:
    label = f"What {escaped(state.pass_.label)} does, and why it is right"
    docs = st.expander(label, key=f"docs of {state.name}", on_change="rerun")
    if docs.open:  # drawn only then: highlighting its code takes a script that the first view would wait for
        docs.markdown(from_docstring(type(state.pass_).__doc__))


def _report(state: PassState) -> None:
    report = st.expander("Report to copy", key=f"report of {state.name}", on_change="rerun")
    if report.open:
        report.code(state.report, language=None, wrap_lines=True, height=220)
