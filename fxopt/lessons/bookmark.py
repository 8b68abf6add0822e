"""A bookmark: the lesson that is shown, and the learner's way through each, as a text for the address of a page."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

from fxopt.lessons.errors import LessonError
from fxopt.lessons.lesson import HINTS, MOST_STEPS, Lesson
from fxopt.lessons.progress import Progress, StepProgress

LIST = "~"
"""Between lessons; in front of all where the list of lessons is shown."""
CLOSED = "."
"""In front of the bookmark of lessons whose panel is closed."""
MOST_LESSONS = 64
_NEW, _BEGUN, _PASSED, _SKIPPED, _LEFT = "nbpsl"
"""The states of a step; one that is left was begun and then skipped."""
_STEP = re.compile(r"([nbpsl])(\d{0,3})(?:h(\d))?(?:a([-+.\de]{1,24}))?")


def bookmark_of(ways: Mapping[str, Progress], shown: str) -> str:
    """Return the bookmark of all ways, by the id of their lesson.

    Args:
        shown: the id of the lesson that is shown; empty for the list.
    """
    first = [_way(ways[shown])] if shown in ways else [""]
    others = [_way(way) for name, way in ways.items() if name != shown]
    return LIST.join([*first, *others]) or LIST


def _way(way: Progress) -> str:
    return "_".join([way.lesson.id, str(way.at), *(_step(way, i) for i in range(len(way.steps)))])


def _step(way: Progress, i: int) -> str:
    state = way.steps[i]
    begun = (_BEGUN, _LEFT) if state.has_begun else (_NEW, _SKIPPED)
    letter = _PASSED if way.has_passed(i) else begun[state.was_skipped]
    tries = str(min(state.tries, 999)) if state.tries else ""
    hints = f"h{state.hints}" if state.hints else ""
    answer = f"a{state.answer:.12g}" if state.answer is not None else ""
    return letter + tries + hints + answer


def read_bookmark(text: str, lesson_of: Callable[[str], Lesson]) -> tuple[str, dict[str, Progress]]:
    """Return the id of the lesson that is shown, empty for the list, and the ways by id.

    The text may come from anyone. It leads to a step of a lesson, and says which ones count as passed; a step that is
    not passed is judged anew. Figures are not in it.

    A lesson by its id alone begins at its first step.

    Args:
        lesson_of: returns the lesson of an id, or raises a `LessonError`.

    Raises:
        LessonError: it is no bookmark, or there is no such lesson.
    """
    parts = text.split(LIST)
    if len(parts) > MOST_LESSONS:
        raise LessonError(f"a bookmark has at most {MOST_LESSONS} lessons, and this has {len(parts)}")
    ways = [_read(part, lesson_of) for part in parts if part]
    return (ways[0].lesson.id if parts[0] else ""), {way.lesson.id: way for way in ways}


def visiting(way: Progress) -> Progress:
    """Return the way of a learner who is shown another one's: the same step, and nothing passed, tried or answered.

    The steps before it count as skipped.
    """
    states = [StepProgress(was_skipped=i < way.at) for i in range(len(way.steps))]
    return Progress(way.lesson, way.at, states)


def _read(text: str, lesson_of: Callable[[str], Lesson]) -> Progress:
    name, *numbers = text.split("_")
    lesson = lesson_of(name)
    if not numbers:
        return Progress(lesson)
    if len(numbers) < 2 or len(numbers) > MOST_STEPS + 1 or not re.fullmatch(r"\d{1,2}", numbers[0], re.ASCII):
        raise LessonError(f"the bookmark of {name} is broken: a part of it may have been lost on its way")
    states = [_read_step(code, name) for code in numbers[1:]]
    way = Progress(lesson, steps=[StepProgress() for _ in lesson.steps])
    for i, (step, (letter, state)) in enumerate(zip(lesson.steps, states)):
        if letter == _PASSED:
            state.is_done = step.done is not None
            state.is_right = state.is_judged = step.question is not None
        if state.answer is not None and step.question is not None and step.question.choices:
            known = state.answer in range(len(step.question.choices))
            state.answer = state.answer if known else None
        way.steps[i] = state
    way.go(int(numbers[0]))
    return way


def _read_step(code: str, name: str) -> tuple[str, StepProgress]:
    found = _STEP.fullmatch(code)
    if found is None:
        raise LessonError(f"the bookmark of {name} is broken: a part of it may have been lost on its way")
    letter, tries, hints, answer = found.groups()
    state = StepProgress(
        has_begun=letter in (_BEGUN, _PASSED, _LEFT),
        was_skipped=letter in (_SKIPPED, _LEFT),
        tries=int(tries or 0),
        hints=min(int(hints or 0), HINTS),
        answer=_number(answer),
    )
    return letter, state


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None
