"""A bookmark leads back to the step, with all that was passed, skipped and asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxopt.lessons import Lesson, LessonError, Progress, lesson_of
from fxopt.lessons.bookmark import LIST, bookmark_of, read_bookmark, visiting
from fxopt.lessons.progress import StepProgress
from fxopt.lessons.walking import Walk
from tests.lessons.small import TEXT, opened, timed

LESSON = lesson_of(TEXT)
OTHER = lesson_of(TEXT.replace("id: small", "id: other-one"))


def known(name: str) -> Lesson:
    return {"small": LESSON, "other-one": OTHER}.get(name) or _unknown(name)


def _unknown(name: str) -> Lesson:
    raise LessonError(f"there is no lesson {name!r}")


STEPS = st.builds(
    StepProgress,
    has_begun=st.booleans(),
    answer=st.none() | st.sampled_from([0.0, 1.0, 40.0]),
    tries=st.integers(0, 120),
    hints=st.integers(0, 3),
    was_skipped=st.booleans(),
)


@given(st.lists(STEPS, min_size=3, max_size=3), st.integers(0, 2), st.lists(st.booleans(), min_size=3, max_size=3))
def test_a_bookmark_leads_back(steps: list[StepProgress], at: int, passed: list[bool]) -> None:
    for i, is_passed in enumerate(passed):
        if is_passed:
            steps[i].has_begun, steps[i].was_skipped = True, False
            steps[i].is_done, steps[i].is_right = LESSON.steps[i].done is not None, LESSON.steps[i].question is not None
            steps[i].is_judged = steps[i].is_right
    steps[0].answer = None if steps[0].answer == 40 else steps[0].answer
    way = Progress(LESSON, steps=steps)
    way.go(at)
    text = bookmark_of({"small": way, "other-one": Progress(OTHER)}, "small")
    shown, ways = read_bookmark(text, known)
    assert (shown, list(ways)) == ("small", ["small", "other-one"])
    assert ways["small"].steps == steps
    assert ways["small"].at == way.at
    assert read_bookmark(bookmark_of({"small": way}, ""), known)[0] == ""
    assert len(text) < 90


def test_a_step_that_is_not_passed_is_judged_anew() -> None:
    walk, way = Walk(LESSON, opened, timed(0.5)), Progress(LESSON)
    way.begin(walk.snapshot())
    way.predict(0)
    walk.do(LESSON.steps[0].solution[0])
    way.observe(walk.snapshot())
    assert (way.now.is_done, way.is_passed) == (True, False)
    _, ways = read_bookmark(bookmark_of({"small": way}, "small"), known)
    again = ways["small"]
    assert (again.now.has_begun, again.now.is_done, again.now.tries) == (True, False, 1)
    again.observe(walk.snapshot())
    assert again.now.counter_example == way.now.counter_example
    again.predict(1)
    assert again.is_passed
    _, ways = read_bookmark(bookmark_of({"small": again}, "small"), known)
    ways["small"].recall_end(walk.snapshot())
    assert ways["small"].now.after == walk.snapshot().figures
    assert ways["small"].is_passed


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("small_0", "broken"), ("small_x_n", "broken"),
        ("small_0_z", "broken"), ("small_٣_n", "broken"),
        ("small_0_n_nn", "broken"), ("nothing_0_n", "no lesson 'nothing'"), ("small_0" + "_n" * 40, "broken"),
        (LIST.join(["small_0_n"] * 65), "at most 64"),
    ],
)  # fmt: skip
def test_another_text_is_refused(text: str, told: str) -> None:
    with pytest.raises(LessonError, match=told):
        read_bookmark(text, known)


def test_the_way_of_another_learner_shows_their_step_and_nothing_that_they_did() -> None:
    _, ways = read_bookmark("small_1_p3h1a1_b2h1_n", known)
    visited = visiting(ways["small"])
    assert visited.at == 1
    assert visited.steps == [StepProgress(was_skipped=True), StepProgress(), StepProgress()]
    assert read_bookmark("small", known) == ("small", {"small": Progress(LESSON)})


def test_no_text_leads_further_than_its_steps_allow_or_holds_an_answer_that_is_none() -> None:
    _, ways = read_bookmark("small_2_pa7_na1e999_n", known)
    way = ways["small"]
    assert (way.at, way.steps[0].answer, way.steps[1].answer) == (0, None, None)
    assert read_bookmark(LIST, known) == ("", {})
