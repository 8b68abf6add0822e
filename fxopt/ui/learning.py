"""A visitor's lessons: the one that is open, how far they are in each, and the facts about their page."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import streamlit as st

from fxopt.edits import Edit
from fxopt.lessons import Lesson, LessonError, Progress, Seen, Snapshot, lessons, snapshot_of
from fxopt.lessons.bookmark import CLOSED, LIST, bookmark_of, read_bookmark, visiting
from fxopt.lessons.errors import unknown
from fxopt.lessons.facts import TABS
from fxopt.lessons.needs import Needs
from fxopt.lessons.snapshot import flops_of
from fxopt.ui.acts import alone
from fxopt.ui.asking import ask_for_model, is_asked_for
from fxopt.ui.open_model import OpenModel
from fxopt.ui.own_lessons import Check, OwnLesson, check, own_lessons
from fxopt.ui.own_rule import present_answer
from fxopt.ui.session import Session
from fxopt.ui.view_state import ViewState
from fxopt.workbench import Choice

KEY = "learning"
FIRST_TAB = TABS[0]


@dataclass(frozen=True, eq=False)
class Start:
    """The state in which a step began: the graph, and the selected node."""

    model: str
    choices: tuple[Choice, ...]
    edits: tuple[Edit, ...]
    selected: str


@dataclass(eq=False)
class Learning:
    """One visitor's lessons. They outlast the sessions with models, and closing the panel."""

    is_open: bool = False
    """The presence of the panel on the page."""
    lesson: str = ""
    """The id of the lesson that is shown; empty for the list of lessons."""
    ways: dict[str, Progress] = field(default_factory=dict)
    """By id of the lesson, how far the visitor is."""
    awaited: Needs | None = None
    """The state that the visitor asked for, and that waits for its model to be open."""
    has_asked: bool = False
    """The mark of a state whose model was asked for."""
    starts: dict[tuple[str, str], Start] = field(default_factory=dict)
    """By lesson and step, the state in which it began, for the button that begins it anew."""
    check: Check | None = None
    """The last check of a lesson that is being written."""
    acts: int = 0
    """The number of the visitor's acts here: each is answered."""
    lessons_begun: int = 0
    """The number of times that a lesson was begun at its first step: the browser makes room for the graph then."""

    @property
    def way(self) -> Progress | None:
        """The progress in the lesson that is shown."""
        return self.ways.get(self.lesson)


def learning() -> Learning:
    """Return the lessons of the visitor whose page is drawn."""
    found: Learning = st.session_state.setdefault(KEY, Learning())
    return found


def offered_lessons() -> tuple[Lesson, ...]:
    """Return the lessons that a visitor may choose from."""
    own = {one.lesson.id: one.lesson for one in own_lessons() if one.lesson is not None}
    return (*own.values(), *(lesson for lesson in lessons() if lesson.id not in own))


# ---- acts


def toggle_lessons() -> None:
    """Open the panel, or close it; all that was done stays."""
    mine = learning()
    mine.is_open = not mine.is_open
    mine.acts += 1


def open_lesson(lesson: Lesson | None) -> None:
    """Show a lesson, where it was left; None shows the list of lessons."""
    mine = learning()
    mine.acts += 1
    mine.lesson = lesson.id if lesson is not None else ""
    if lesson is not None:
        take(lesson)


def take(lesson: Lesson) -> Progress:
    """Return the visitor's way through a lesson. Where its text is another than before, equal tasks keep theirs."""
    ways = learning().ways
    old = ways.get(lesson.id)
    if old is None or old.lesson != lesson:
        ways[lesson.id] = old.carried_to(lesson) if old is not None else Progress(lesson)
    return ways[lesson.id]


def take_for(old: Progress, lesson: Lesson) -> Progress:
    """Go on in another text of the lesson that is shown, whose id may be another too."""
    mine = learning()
    mine.ways.pop(old.lesson.id, None)
    mine.ways[lesson.id] = old
    mine.lesson = lesson.id
    return take(lesson)


def ask_for_check(own: OwnLesson) -> None:
    """Walk a lesson by its solutions, to find its faults; the check before is cancelled."""
    mine = learning()
    mine.acts += 1
    if mine.check is not None:
        mine.check.job.cancel()
    mine.check = check(own)


def do(act: Callable[[Progress], None]) -> None:
    """Do something in the lesson that is shown."""
    mine = learning()
    mine.acts += 1
    if mine.way is not None:
        act(mine.way)


def ask_for(needs: Needs) -> None:
    """Ask for the state that a step begins with: its model is opened first, if it is not the one that is open."""
    mine = learning()
    mine.acts += 1
    mine.awaited, mine.has_asked = needs, False


def choose_awaited_model() -> None:
    """Choose the model that the visitor asked for; before the picker is drawn, which shows it then."""
    mine = learning()
    if mine.awaited is not None and not mine.has_asked:
        mine.has_asked = True
        ask_for_model(mine.awaited.model, mine.awaited.batch, mine.awaited.sequence)


def begin_awaited(session: Session | None) -> None:
    """Bring the workbench to the state that the visitor asked for, once its model is open. Before anything is drawn."""
    mine = learning()
    needs, way = mine.awaited, mine.way
    if needs is None:
        return
    if way is None or not (is_asked_for(needs.model) or is_at(session, needs)):
        mine.awaited = None  # the visitor has left the lesson, or chosen another model meanwhile
    elif session is not None and is_at(session, needs):
        mine.awaited = None
        _begin(session, needs, way)


def is_at(session: Session | None, needs: Needs) -> bool:
    """Return whether the open model is the one that is needed, at the sizes that are."""
    if session is None or session.opened.source.key != needs.model:
        return False
    opened: OpenModel = session.opened
    return (opened.batch, opened.sequence) == opened.source.sizes.checked(needs.model, needs.batch, needs.sequence)


@alone
def _begin(session: Session, needs: Needs, way: Progress) -> None:
    needs.begin(session.workbench)
    if way.at == 0:
        learning().lessons_begun += 1
        st.session_state["evidence"] = FIRST_TAB
    session.view = ViewState(
        looked_at=way.step.pass_to_open, unfolded=session.opened.blocks, gone_to=session.view.gone_to
    )
    way.begin(page_snapshot(session, way))


def note_start(session: Session, way: Progress, *, begins: bool) -> None:
    """Keep the state in which the step that is shown `begins` now; after a reload, that in which it goes on."""
    bench, known = session.workbench, learning().starts
    if not way.now.has_begun or (not begins and (way.lesson.id, way.step.id) in known):
        return
    start = Start(session.opened.source.key, bench.choices, tuple(bench.edits), session.view.selected)
    known[way.lesson.id, way.step.id] = start


def begin_anew(session: Session) -> None:
    """Begin the step that is shown anew: with its own state, or else with that in which it began."""
    way = learning().way
    if way is None:
        return
    do(Progress.reset)
    start = learning().starts.get((way.lesson.id, way.step.id))
    if way.begins_anew_with is not None:
        ask_for(way.begins_anew_with)
    elif start is not None and start.model == session.opened.source.key:
        _go_back(session, start)


@alone
def _go_back(session: Session, start: Start) -> None:
    if session.workbench.choices != start.choices:
        session.workbench.choose(start.choices, start.edits)
    session.view = replace(session.view, selected=start.selected, question=None)


# ---- the address


def bookmark() -> str:
    """Return the lessons as a text for the address; empty before the visitor has opened one."""
    mine: Learning | None = st.session_state.get(KEY)
    if mine is None or not (mine.is_open or mine.ways):
        return ""
    return ("" if mine.is_open else CLOSED) + bookmark_of(mine.ways, mine.lesson)


def come_back(text: str, *, is_own: bool, is_step: bool) -> None:
    """Show the lessons as a bookmark does. All that the visitor did stays: it adds the rest.

    Args:
        is_own: whether this browser wrote the bookmark. One that was sent shows its step, if its panel is open, and
            brings nothing that its sender did.
        is_step: whether the visitor came by back or forward, so that an empty bookmark closes the panel.

    Raises:
        LessonError: it is no bookmark; or a lesson in it is not here, and the others are shown.
    """
    mine = learning()
    if not text or (text.startswith(CLOSED) and not is_own):
        mine.is_open = mine.is_open and not is_step
        return
    is_open, text = not text.startswith(CLOSED), text.removeprefix(CLOSED)
    names = [part.split("_")[0] for part in text.split(LIST)]
    offered = {lesson.id: lesson for lesson in offered_lessons()}
    gone = [name for name in names if name and name not in offered]
    if gone and set(gone) == set(filter(None, names)):
        raise LessonError(unknown("lesson", gone[0], offered))
    parts = ("" if name in gone else part for name, part in zip(names, text.split(LIST)))
    shown, ways = read_bookmark(LIST.join(parts), offered.__getitem__)
    if not is_own:
        ways = {name: visiting(way) for name, way in ways.items() if name == shown}
    mine.ways = ways | mine.ways
    if is_step or not mine.is_open:
        mine.is_open, mine.lesson = is_open, shown
        if shown:
            mine.ways[shown].go(ways[shown].at)
    mine.acts += 1
    if gone:
        raise LessonError(unknown("lesson", gone[0], offered))


# ---- facts


def page_snapshot(session: Session, way: Progress) -> Snapshot:
    """Return the facts about the page as it is, with the figures that the step speaks of."""
    return snapshot_of(session.workbench, seen_on(session), dict.fromkeys(way.step.figures))


def start_snapshot(session: Session, way: Progress) -> Snapshot:
    """Return the facts about the page in the state that the step begins with, where that is known; else as it is."""
    needs = way.begins_anew_with
    if needs is None or not is_at(session, needs):
        return page_snapshot(session, way)
    trial = session.workbench.another()
    needs.begin(trial)
    seen = Seen(model=session.opened.source.key, inputs=session.opened.inputs)
    return snapshot_of(trial, seen, dict.fromkeys(way.step.figures))


def seen_on(session: Session) -> Seen:
    """Return the visitor's view around the workbench, and the evidence on the graph as it is now."""
    view, choices = session.view, session.workbench.choices
    comparison, measurement = session.comparison, session.measurement
    return Seen(
        model=session.opened.source.key,
        inputs=session.opened.inputs,
        selected=view.selected,
        focus=view.looked_at,
        view=view.together or view.shown,
        tab=open_tab(),
        numerics=comparison.job.result if comparison is not None and comparison.choices == choices else None,
        latency=measurement.job.result if measurement is not None and measurement.choices == choices else None,
        rule=present_answer(session),
        flops=partial(_flops, session),
    )


def _flops(session: Session, when: str) -> int:
    """Return the floating-point operations of the graph `before` or `now`, counted once."""
    opened = session.opened
    if when == "before":
        return opened.once.answer("flops in lessons", lambda: flops_of(opened.pristine, opened.inputs))
    return session.memo.once("flops in lessons", lambda: flops_of(session.workbench.current, opened.inputs))


def open_tab() -> str:
    """Return the name of the open tab of evidence."""
    return str(st.session_state.get("evidence") or FIRST_TAB)


_GROUPED = re.compile(r"[+-]?(?!0,)\d{1,3}(,\d{3})+(\.\d*)?")
"""Digits in groups of three, as in 4,096; 0,125 has a decimal comma."""


def read_number(text: str) -> float:
    """Return the finite number that a visitor typed, with a comma or a point, and any sign.

    Raises:
        LessonError: it is none.

    >>> read_number(" −1 234,5 "), read_number("1234,567"), read_number("1,234.5")
    (-1234.5, 1234.567, 1234.5)
    """
    plain = "".join(text.split()).replace("−", "-")
    if _GROUPED.fullmatch(plain):
        plain = plain.replace(",", "")
    elif "." not in plain:
        plain = plain.replace(",", ".", 1)
    try:
        number = float(plain)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise LessonError(f"{text!r} is no number")
    return number
