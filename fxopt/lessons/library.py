"""The lessons that come with fxopt, in their order."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from fxopt.lessons.errors import LessonError, unknown
from fxopt.lessons.lesson import Lesson
from fxopt.lessons.reading import load_lesson

TEXTS = Path(__file__).parent / "texts"


@cache
def lessons() -> tuple[Lesson, ...]:
    """Return the lessons, in the order of their files' names."""
    return tuple(load_lesson(file) for file in sorted(TEXTS.glob("*.md")))


def lesson_named(name: str) -> Lesson:
    """Return the lesson with an id.

    Raises:
        LessonError: there is none; the error has the nearest one.
    """
    for lesson in lessons():
        if lesson.id == name:
            return lesson
    raise LessonError(unknown("lesson", name, (lesson.id for lesson in lessons())))
