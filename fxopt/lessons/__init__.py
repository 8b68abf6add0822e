"""Lessons: Markdown files whose steps are checked against the state of a workbench. Nothing in one is run as code.

`load_lesson` reads a file, `Progress` is a learner's way through it, `snapshot_of` gives the facts that judge it, and
`faults_of` walks a lesson to find its faults.
"""

from fxopt.lessons.errors import LessonError
from fxopt.lessons.facts import Snapshot
from fxopt.lessons.lesson import Lesson
from fxopt.lessons.library import lesson_named, lessons
from fxopt.lessons.progress import Progress
from fxopt.lessons.reading import lesson_of, load_lesson
from fxopt.lessons.snapshot import Seen, snapshot_of
from fxopt.lessons.walking import faults_of

__all__ = [
    "Lesson",
    "LessonError",
    "Progress",
    "Seen",
    "Snapshot",
    "faults_of",
    "lesson_named",
    "lesson_of",
    "lessons",
    "load_lesson",
    "snapshot_of",
]
