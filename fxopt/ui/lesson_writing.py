"""A lesson while its teacher writes it: the file is read anew when it changes, and can be checked whole."""

from __future__ import annotations

from functools import partial

import streamlit as st

from fxopt.lessons import Progress
from fxopt.ui.folders import is_served_here
from fxopt.ui.learning import ask_for_check, learning, take_for
from fxopt.ui.markdown import code, escaped
from fxopt.ui.own_lessons import OwnLesson, own_lesson
from fxopt.ui.panel import acting
from fxopt.ui.session import Session
from fxopt.ui.waiting import result_soon

LOOK_SECONDS = 1.0
"""The file is looked at so often."""


def being_written(session: Session, way: Progress) -> Progress:
    """Draw the state of the file that a lesson comes from, if it does; return the way through it as it is now."""
    own = own_lesson(way.lesson)
    if own is None:
        return way
    st.fragment(_watch, run_every=LOOK_SECONDS)(way, own.stamp)
    if own.lesson is None:
        st.error(escaped(own.fault), icon=":material/error:")
        st.caption("Below is the lesson as it was before that.")
        return way
    if own.lesson != way.lesson:
        way = take_for(way, own.lesson)
    _check(session, own)
    return way


def _watch(way: Progress, stamp: int) -> None:
    now = own_lesson(way.lesson)
    if now is not None and now.stamp != stamp:
        st.rerun()


def _check(session: Session, own: OwnLesson) -> None:
    st.caption(f"{code(own.file.name)} is read anew as you save it.")
    if not is_served_here():
        st.caption("On a server for others it is checked by `fxopt lessons check`.")
        return
    mine = learning()
    if mine.check is None or not mine.check.is_of(own):
        if mine.check is not None and mine.check.own.file == own.file:
            mine.check.job.cancel()  # the file has changed
        act = acting(session, partial(ask_for_check, own))
        st.button("Check the whole lesson", key="check lesson", help="Walk it by its solutions", on_click=act)
        return
    faults = result_soon(mine.check.job, "Walking the lesson by its solutions", can_cancel=True)
    if faults is None:
        return
    if not faults:
        st.success("No fault: each step begins undone, and is done by its solution.")
    for fault in faults:
        st.error(escaped(fault), icon=":material/error:")
