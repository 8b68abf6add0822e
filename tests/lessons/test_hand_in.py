"""The code to hand in comes back as it was made, and a typing error does not pass."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxopt.lessons import LessonError, Progress, lesson_of
from fxopt.lessons.hand_in import _LETTERS, HandIn, code_of, read, written
from tests.lessons.small import TEXT

IDS = ["what-a-graph-is", "division", "challenge"]
CONTENTS = st.builds(
    HandIn,
    st.sampled_from(IDS),
    st.integers(1, 31),
    st.integers(0, 31),
    st.integers(0, 127),
    st.dates(date(2026, 1, 1), date(2048, 1, 1)),
)


@given(CONTENTS)
def test_a_code_comes_back_as_it_was_made_however_it_is_typed(content: HandIn) -> None:
    code = written(content)
    assert read(code, IDS) == content
    assert read(code.lower().replace("-", " ").replace("0", "o").replace("1", "l"), IDS) == content


@given(CONTENTS, st.integers(0, 11), st.sampled_from(_LETTERS))
def test_one_wrong_letter_is_found(content: HandIn, at: int, letter: str) -> None:
    code = written(content).replace("-", "")
    if letter != code[at]:
        with pytest.raises(LessonError, match="typing error"):
            read(code[:at] + letter + code[at + 1 :], IDS)


@given(CONTENTS, st.integers(0, 10))
def test_two_letters_in_the_wrong_order_are_found(content: HandIn, at: int) -> None:
    code = written(content).replace("-", "")
    swapped = code[:at] + code[at + 1] + code[at] + code[at + 2 :]
    if swapped != code:
        with pytest.raises(LessonError, match="typing error"):
            read(swapped, IDS)


@pytest.mark.parametrize(
    ("code", "told"),
    [("", "12 letters"), ("CD6C-A4GM-R8F", "this has 11"), ("K39K-2H42-K4Z!", "no '!'")],
)
def test_what_is_no_code_is_refused_with_the_reason(code: str, told: str) -> None:
    with pytest.raises(LessonError, match=told):
        read(code, IDS)


def test_a_code_of_another_lesson_is_refused() -> None:
    code = written(HandIn("division", 5, 5, 5, date(2026, 11, 29)))
    with pytest.raises(LessonError, match="another lesson"):
        read(code, ["merging"])


@pytest.mark.parametrize(
    ("steps", "passed", "day", "told"),
    [
        (32, 5, date(2026, 11, 29), "32 as its steps"),
        (31, 32, date(2026, 11, 29), "32 as its passed"),
        (31, 5, date(2025, 12, 31), "2025-12-31 as its day"),
        (31, 5, date(2048, 6, 6), "2048-06-06 as its day"),
    ],
)
def test_no_code_tells_other_numbers_than_it_was_given(steps: int, passed: int, day: date, told: str) -> None:
    with pytest.raises(LessonError, match=told):
        written(HandIn("division", steps, passed, 5, day))
    last = HandIn("division", 31, 31, 127, date(2048, 6, 5))
    assert read(written(last), IDS) == last


def test_the_code_of_a_lesson_counts_what_was_done_and_comes_at_its_end_alone() -> None:
    progress = Progress(lesson_of(TEXT))
    with pytest.raises(LessonError, match="unfinished"):
        code_of(progress, date(2026, 11, 29))
    for _ in progress.steps:
        progress.skip()
    progress.steps[0].tries = 200
    progress.steps[2].is_done = True
    found = read(code_of(progress, date(2026, 11, 29)), ["small"])
    assert found == HandIn("small", 3, 1, 127, date(2026, 11, 29))
