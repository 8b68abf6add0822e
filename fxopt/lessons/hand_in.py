"""The hand-in code: a lesson, its steps, tries and the day in twelve letters, safe against typing errors.

It proves nothing against someone who wants to cheat: whoever reads this file can write a code. It is a receipt.
"""

from __future__ import annotations

import binascii
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta

from fxopt.lessons.errors import LessonError
from fxopt.lessons.progress import Progress

_LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's base 32: no I, L, O, U
_ALIKE = str.maketrans({"O": "0", "I": "1", "L": "1"})
_LENGTH, _GROUP = 12, 4
_FIRST_DAY = date(2026, 1, 1)
_FIELDS = (("lesson", 14), ("steps", 5), ("passed", 5), ("tries", 7), ("day", 13))
_MOST_TRIES = 2**7 - 1
_CHECK = 16  # a CRC of so many bits finds each error within 16 bits in a row: a wrong letter, two that are swapped


@dataclass(frozen=True)
class HandIn:
    """The content of a code."""

    lesson: str
    steps: int
    """The steps of the lesson."""
    passed: int
    """Those that were done and answered; the others were skipped."""
    tries: int
    """The answers that were judged, all steps together; 127 stands for as many or more."""
    day: date


def code_of(progress: Progress, day: date) -> str:
    """Return the code of a finished lesson.

    Raises:
        LessonError: a step is neither passed nor skipped, or the day is out of the range of a code.
    """
    if not progress.is_finished:
        raise LessonError("the lesson is unfinished: a step is still to be done or skipped")
    count = len(progress.steps)
    return written(
        HandIn(
            progress.lesson.id,
            count,
            sum(progress.has_passed(i) for i in range(count)),
            sum(one.tries for one in progress.steps),
            day,
        )
    )


def written(hand_in: HandIn) -> str:
    """Return the code of its content.

    Raises:
        LessonError: a code has no room for the steps (31 at most) or the day (from 2026-01-01 to 2048-06-05).

    >>> written(HandIn("what-a-graph-is", 6, 5, 9, date(2026, 11, 29)))
    'CD6C-A4GM-R8FY'
    """
    values = {
        "lesson": _number_of(hand_in.lesson),
        "steps": hand_in.steps,
        "passed": hand_in.passed,
        "tries": min(hand_in.tries, _MOST_TRIES),
        "day": (hand_in.day - _FIRST_DAY).days,
    }
    packed = 0
    for name, bits in _FIELDS:
        if not 0 <= values[name] < 2**bits:
            told = hand_in.day if name == "day" else values[name]
            raise LessonError(f"a code to hand in cannot hold {told} as its {name}")
        packed = packed << bits | values[name]
    packed = packed << _CHECK | _check(packed)
    letters = "".join(_LETTERS[packed >> 5 * i & 31] for i in reversed(range(_LENGTH)))
    return "-".join(letters[i : i + _GROUP] for i in range(0, _LENGTH, _GROUP))


def read(code: str, lessons: Iterable[str]) -> HandIn:
    """Return the content of a code, as a learner typed it: small letters, O for 0 and missing hyphens are fine.

    Args:
        lessons: the ids of the lessons that it may be of.

    Raises:
        LessonError: a letter is wrong, or the lesson is none of these.

    >>> read("cd6c a4gm r8fy", ["what-a-graph-is"]).day
    datetime.date(2026, 11, 29)
    """
    letters = "".join(code.upper().replace("-", "").split()).translate(_ALIKE)
    if len(letters) != _LENGTH:
        raise LessonError(f"a code has {_LENGTH} letters and digits, and this has {len(letters)}")
    wrong = next((letter for letter in letters if letter not in _LETTERS), "")
    if wrong:
        raise LessonError(f"a code has no {wrong!r}")
    packed = 0
    for letter in letters:
        packed = packed << 5 | _LETTERS.index(letter)
    content, check = packed >> _CHECK, packed & 2**_CHECK - 1
    if check != _check(content):
        raise LessonError("this code has a typing error: its check disagrees with the rest")
    values = {}
    for name, bits in reversed(_FIELDS):
        values[name], content = content & 2**bits - 1, content >> bits
    named = {_number_of(lesson): lesson for lesson in lessons}
    if values["lesson"] not in named:
        raise LessonError("this code is of another lesson than are known here")
    day = _FIRST_DAY + timedelta(values["day"])
    return HandIn(named[values["lesson"]], values["steps"], values["passed"], values["tries"], day)


def _number_of(lesson: str) -> int:
    return zlib.crc32(lesson.encode()) & 2**14 - 1


def _check(content: int) -> int:
    return binascii.crc_hqx(content.to_bytes(6, "big"), 0)
