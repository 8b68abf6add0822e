"""The lessons beside the page: the list of them, and the step of the open one."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from fxopt.lessons import Lesson, Progress
from fxopt.ui.job import Job
from fxopt.ui.learning import (
    Learning,
    do,
    learning,
    note_start,
    offered_lessons,
    open_lesson,
    open_tab,
    page_snapshot,
    start_snapshot,
    toggle_lessons,
)
from fxopt.ui.lesson_step import lesson_step, outlines
from fxopt.ui.lesson_writing import being_written
from fxopt.ui.markdown import escaped
from fxopt.ui.own_lessons import own_lessons
from fxopt.ui.own_rule import is_code_allowed, own_rule, present_answer
from fxopt.ui.panel import BESIDE, acting, panel, work_ended
from fxopt.ui.session import Session

LOOK_SECONDS = 1.0
"""Work that runs is looked at so often."""
NEEDS_CODE = (
    "Its steps are done where rules may be written: a rule is Python, and runs on the machine that serves the page. "
    "On your own machine: `fxopt app --allow-code`."
)
_STYLES = Path(__file__).with_name("lesson.css")


def lesson_styles() -> None:
    """Draw the styles of the panel, once for the page."""
    st.html(_STYLES)


def lesson_panel(session: Session) -> None:
    """Draw the lessons in the sidebar, if the visitor has opened them; after the rest of the page, which they judge."""
    if learning().is_open:
        with st.sidebar:
            panel(session, *BESIDE, _draw, _shown)


def _shown(session: Session) -> Hashable:
    """Return all that decides whether a step is done, and the visitor's acts in the lesson."""
    view = session.view
    return (
        session.workbench.choices, view.selected, view.looked_at, view.shown, view.together, open_tab(),
        session.compared, session.comparison, session.measurement, present_answer(session), learning().acts,
    )  # fmt: skip


def _draw(session: Session) -> None:
    mine = learning()
    if mine.awaited is not None:
        st.rerun()  # the page is to open the model, and to begin with the state, before anything is drawn
    way = mine.way
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        if way is None:
            st.markdown("### Lessons")
        else:
            _button(session, "All lessons", "lesson list", partial(open_lesson, None), icon=":material/arrow_back:")
        st.button("Close", key="close lessons", type="tertiary", on_click=toggle_lessons, help="All that you did stays")
    if way is None:
        _list(session, mine)
        return
    way = being_written(session, way)
    now = page_snapshot(session, way)
    if way.lacks_its_start:
        way.recall(start_snapshot(session, way))  # before it is judged
    had_begun = way.now.has_begun
    way.observe(now)
    way.recall_end(now)
    note_start(session, way, begins=not had_begun)
    st.markdown(f"## {escaped(way.lesson.title)}")
    if way.lesson.writes_rules and not is_code_allowed():
        st.info(f"{NEEDS_CODE} Here you can read the steps, and skip them.", icon=":material/terminal:")
    elif way.lesson.writes_rules:
        own_rule().begin_ahead(session)  # meanwhile the learner reads
    _line(session, way)
    lesson_step(session, way)
    outlines(session, way)
    if running := _running(session):
        st.fragment(_watch, run_every=LOOK_SECONDS)(session, running)


def _running(session: Session) -> list[Job[Any]]:
    """Return the work on evidence that runs: a step may wait for it, and its tab may be closed when it is done."""
    jobs = [one.job for one in (session.comparison, session.measurement) if one is not None]
    return [job for job in jobs if job.running]


def _watch(session: Session, running: list[Job[Any]]) -> None:
    if not all(job.running for job in running):
        work_ended(session)


def _list(session: Session, mine: Learning) -> None:
    st.markdown("Each one leads you through this page itself. You predict, do it, and the run shows who was right.")
    for one in own_lessons():
        if one.fault:
            st.error(escaped(one.fault), icon=":material/error:")
    for i, lesson in enumerate(offered_lessons(), 1):
        _entry(session, mine, i, lesson)


def _entry(session: Session, mine: Learning, number: int, lesson: Lesson) -> None:
    way = mine.ways.get(lesson.id)
    count = len(lesson.steps)
    if way is None:
        state = f"{count} steps, about {lesson.minutes} minutes"
    elif way.is_finished:
        state = "finished"
    else:
        state = f"{sum(map(way.has_passed, range(count)))} of {count} steps done"
    icon = ":material/check:" if way is not None and way.is_finished else None
    with st.container(gap=None):
        _button(session, f"{number}. {lesson.title}", f"lesson {lesson.id}", partial(open_lesson, lesson), icon=icon)
        st.caption(f"{escaped(lesson.about)} {state}.")
        if lesson.writes_rules and not is_code_allowed():
            st.caption(NEEDS_CODE)


def _line(session: Session, way: Progress) -> None:
    """Draw the line of steps: each that was reached can be gone to."""
    with st.container(horizontal=True, gap="xxsmall", key="lesson line"):
        for i, (step, state) in enumerate(zip(way.lesson.steps, way.steps)):
            told = "done" if way.has_passed(i) else "skipped" if state.was_skipped else "to do"
            sign = "✓" if way.has_passed(i) else "↷" if state.was_skipped else ""
            st.button(
                f"{i + 1}{sign}",
                key=f"lesson step {i}",
                help=f"Step {i + 1}: {step.title} ({told})",
                type="primary" if i == way.at else "secondary",
                disabled=i > way.reached,
                on_click=acting(session, partial(do, partial(Progress.go, to=i))),
            )


def _button(session: Session, label: str, key: str, act: Callable[[], None], icon: str | None = None) -> None:
    st.button(escaped(label), key=key, icon=icon, type="tertiary", on_click=acting(session, act))
