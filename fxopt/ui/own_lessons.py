"""Lessons of whoever serves the page: files that are read anew when they change, and checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from fxopt.lessons import Lesson, LessonError, faults_of, lessons, load_lesson
from fxopt.lessons.walking import asked, refused
from fxopt.ui.job import Job
from fxopt.ui.own_rule import is_code_allowed
from fxopt.ui.presence import presence

ENDED = "The check was ended before the last step."

_FILES: list[Path] = []
"""They belong to the process, as its command line does."""


@dataclass(frozen=True)
class OwnLesson:
    """A lesson file as it is now: the lesson, or the reason why it is none."""

    file: Path
    stamp: int
    """Changes with the file."""
    lesson: Lesson | None = None
    fault: str = ""


def offer_lessons(files: Sequence[Path]) -> None:
    """Offer the lessons in these files, before those of fxopt; one with the id of fxopt's takes its place."""
    _FILES[:] = dict.fromkeys(files)


def own_lessons() -> tuple[OwnLesson, ...]:
    """Return the lessons in the files, as they are now. A second file with the id of another is at fault."""
    files: dict[str, Path] = {}
    return tuple(_alone(_read(file, _stamp(file)), files) for file in _FILES)


def _alone(one: OwnLesson, files: dict[str, Path]) -> OwnLesson:
    """Return a lesson whose id no file before it has; `files` has those by id."""
    if one.lesson is None or (first := files.setdefault(one.lesson.id, one.file)) == one.file:
        return one
    told = f"{one.file.name}: its id {one.lesson.id!r} is that of {first.name} too; give one of them another"
    return OwnLesson(one.file, one.stamp, fault=told)


def own_lesson(lesson: Lesson) -> OwnLesson | None:
    """Return the file of a lesson, if it comes from one, as it is now: it may hold a fault by now, or another id."""
    found = own_lessons()
    for one in found:
        if one.lesson is not None and one.lesson.id == lesson.id:
            return one
    file = _FILE_OF.get(lesson.id) if lesson not in lessons() else None
    return next((one for one in found if one.file == file), None)


@dataclass(frozen=True, eq=False)
class Check:
    """The check of a lesson file as it was then."""

    own: OwnLesson
    job: Job[list[str]]
    """The result is the faults."""

    def is_of(self, own: OwnLesson) -> bool:
        """Return whether it is the check of a file as it is now, and was not cancelled."""
        return (self.own.file, self.own.stamp) == (own.file, own.stamp) and not self.job.is_cancelled


def check(own: OwnLesson) -> Check:
    """Walk a lesson by its solutions, beside the page; the walk ends when it is cancelled, or the visitor leaves."""
    lesson = own.lesson
    assert lesson is not None
    ask = asked if is_code_allowed() else refused

    def work(progress: Callable[[float], bool]) -> list[str]:
        found = [str(fault) for fault in faults_of(lesson, wanted=lambda: progress(0.0), ask=ask)]
        return found if progress(1.0) else [*found, ENDED]

    return Check(own, Job(work, presence()))


_FILE_OF: dict[str, Path] = {}
"""By id, the file that had it last."""


@lru_cache(maxsize=64)
def _read(file: Path, stamp: int) -> OwnLesson:
    try:
        lesson = load_lesson(file)
    except LessonError as error:
        return OwnLesson(file, stamp, fault=str(LessonError(error.reason, error.line, file.name)))
    _FILE_OF[lesson.id] = file
    return OwnLesson(file, stamp, lesson)


def _stamp(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0
