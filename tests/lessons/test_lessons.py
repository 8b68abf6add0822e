"""The lessons of fxopt, walked as a learner would: with right answers, and with each wrong one."""

from __future__ import annotations

import dataclasses
import re
from functools import cache
from pathlib import Path

import pytest

import fxopt
from fxopt.evidence import LatencyReport, Round, report_of
from fxopt.lessons import Lesson, LessonError, Progress, faults_of, lesson_named, lessons
from fxopt.lessons.facts import TABS
from fxopt.lessons.figures import FIGURES, filled
from fxopt.lessons.lesson import Question
from fxopt.lessons.needs import Needs
from fxopt.lessons.walking import Walk
from fxopt.models import Inputs, model_source
from fxopt.tracing import CaptureStore
from fxopt.workbench import Workbench
from fxopt.writing import Answer, check, look
from scripts.lesson_tables import GUIDE, written
from tests.quick import quick

NAMES = [lesson.id for lesson in lessons()]
MEASURED = {"faster": (1.0, 0.5), "slower": (1.0, 2.0), "no difference": (1.0, 1.0)}


@cache
def _captured(model: str, batch: int | None, sequence: int | None) -> tuple[Workbench, Inputs]:
    source = model_source(model)
    built = source.build()
    inputs = source.inputs(built, batch, sequence)
    gm = CaptureStore.of_this_user().capture(model, built, *inputs)
    return Workbench(gm), inputs


def opened(needs: Needs) -> tuple[Workbench, Inputs]:
    wb, inputs = _captured(needs.model, needs.batch, needs.sequence)
    return wb.another(), inputs


def timed(wb: Workbench, inputs: Inputs, before: float = 1.0, after: float = 0.5) -> LatencyReport:
    """Stand for a measurement on a noisy machine: the control is not exactly 1 either."""
    return report_of([Round(before, after * (1 + i / 100), before * (0.98 + i / 100)) for i in range(8)])


def answered(text: str, wb: Workbench, inputs: Inputs, checks: bool) -> Answer:
    """Run a rule of our own lessons in this process."""
    return check(text, wb.pristine, *inputs) if checks else look(text, wb.pristine)


def test_there_are_eight_lessons_a_challenge_and_a_rule_each_after_lessons_that_come_before() -> None:
    assert len(NAMES) == len(set(NAMES)) == 10
    assert NAMES[-2:] == ["challenge", "own-rule"]
    assert [lesson.id for lesson in lessons() if lesson.writes_rules] == ["own-rule"]
    for i, lesson in enumerate(lessons()):
        assert set(lesson.after) <= set(NAMES[:i]), f"{lesson.id} comes before one that it builds on"
        assert lesson.about
        assert lesson_named(lesson.id) is lesson


def test_an_unknown_lesson_is_refused_with_the_nearest() -> None:
    with pytest.raises(LessonError, match="did you mean 'division'"):
        lesson_named("divisions")


@pytest.mark.parametrize("name", quick(NAMES, "division", "batch-norm", "reversing", "own-rule"))
def test_each_step_is_false_at_its_start_and_true_after_its_solution(name: str) -> None:
    assert [str(fault) for fault in faults_of(lesson_named(name), opened, timed, ask=answered)] == []


def wrong_answers(question: Question, shown: tuple[float | None, ...]) -> list[float]:
    if question.choices:
        return [float(i) for i, holds in enumerate(shown) if not holds]
    right, *mistaken = shown
    assert right is not None
    return [right * 3 + 7, *(value for value in mistaken if value is not None)]


@pytest.mark.parametrize("name", quick(NAMES, "division", "batch-norm", "reversing", "own-rule"))
def test_a_wrong_answer_gets_its_counter_example_and_no_next_step(name: str) -> None:
    lesson = lesson_named(name)
    progress, walk = Progress(lesson), Walk(lesson, opened, timed, answered)
    for i, step in enumerate(lesson.steps):
        if step.needs is not None:
            walk.begin(step.needs, step.pass_to_open)
        progress.begin(walk.snapshot())
        if step.question is not None:
            progress.predict(0)
        if step.done is not None:
            progress.observe(walk.snapshot())
            assert not progress.is_passed
        for act in step.solution:
            walk.do(act)
        progress.observe(walk.snapshot())
        if step.question is not None:
            told = set()
            for answer in wrong_answers(step.question, progress.now.shown):
                other = Progress(lesson, i, [dataclasses.replace(one) for one in progress.steps])
                other.now.is_right = False
                other.predict(answer)
                other.observe(walk.snapshot())
                assert (other.is_passed, other.reached) == (False, i)
                told.add(filled(other.now.counter_example, other.now.after))
                other.go(i + 1)
                assert other.at == i
            assert "" not in told
            assert not any("–" in one for one in told), "a figure in a counter-example is unknown"
            right = float(progress.now.shown.index(1.0)) if step.question.choices else float(progress.now.shown[0] or 0)
            progress.predict(right)
            progress.observe(walk.snapshot())
        assert progress.is_passed, step.title
        assert "–" not in filled(step.text, progress.now.before) + filled(step.explanation, progress.now.after)
        progress.go(i + 1)
    assert progress.is_finished


def predictions(lesson: Lesson) -> list[Question]:
    """Return the questions about a measurement."""
    found = [step.question for step in lesson.steps if step.question is not None]
    return [one for one in found if one.choices and any(fact.name == "latency" for choice in one.choices
                                                        for fact in choice.holds.facts())]  # fmt: skip


def test_a_question_about_a_measurement_has_one_answer_whatever_a_machine_shows() -> None:
    lesson = lesson_named("merging")
    asked = [question for lesson in lessons() for question in predictions(lesson)]
    assert len(asked) >= 3
    for before, after in MEASURED.values():
        walk = Walk(lesson, opened, lambda wb, inputs, times=(before, after): timed(wb, inputs, *times))
        walk.wb.turn_on("MergeLinears")
        walk.measure()
        now = walk.snapshot()
        for question in asked:
            assert sum(choice.holds.holds(now) for choice in question.choices) == 1


def test_a_ratio_that_is_not_exactly_one_is_not_told_as_one() -> None:
    question = lesson_named("measuring").steps[0].question
    assert question is not None
    for ratio, words in ((1.00028, "1.0003"), (0.99999, "0.99999"), (0.9464, "0.95")):
        told = filled(question.choices[0].because, {"latency.ratio": ratio})
        assert told.startswith(f"It is {words}. ")


KEPT = (
    "called twice", "power of two", "powers of two", "1 / factor", "1 / (1 / {", "1 / {argument", "53 bits", "64 bits",
    "the two errors", "off once more", "once it is off", "channel 0", "computed once", "Which of the two",
    "runs each once", "Two runs of one program", "ratio of the two exactly 1", "interval around 1", "Exactly 1, at",
    "Around 1, with", "Half of the changes", "in which half", "Two that improve", "of two improvements", "folded once",
    "at once", "once more", "four spaces", "reads the input once", "x * 1",
)  # fmt: skip
"""Phrases with a number that is no result of a run: of binary numbers, of the form of a rule, or of the task itself."""
NUMBER = re.compile(r"(?<![\w*])\d[\d.]*\b|\b(two|three|four|five|six|seven|eight|nine|ten|twice|once|half)\b", re.I)


def test_numbers_in_texts_are_computed_from_the_run_and_never_typed_in() -> None:
    typed = []
    for lesson in lessons():
        for text in (
            lesson.title,
            lesson.about,
            *(text for step in lesson.steps for text in (step.title, *step.texts)),
        ):
            told = text.replace("\n", " ")
            for kept in KEPT:
                told = told.replace(kept, "")
            told = re.sub(r"`[^`]*`|\$[^$]*\$|\{[a-z_]+\.[\w.]+\}", "", told)
            typed += [f"{lesson.id}: {text}" for _ in NUMBER.finditer(told)]
    assert typed == []


TAB_IN_TEXT = re.compile(r"\b[Tt]ab \*?([A-Z][a-z]+(?: rule| line)?)")
BUTTON_IN_TEXT = re.compile(r"\b(?:[Pp]ress|button|[Oo]pen) \*?([A-Z][a-z]+(?: all| copy| the laws)?)")


def test_texts_name_tabs_and_buttons_that_are_on_the_page() -> None:
    page = "".join(file.read_text() for file in Path(fxopt.__file__).with_name("ui").glob("*.py"))
    texts = [text for lesson in lessons() for step in lesson.steps for text in step.texts]
    tabs = {name for text in texts for name in TAB_IN_TEXT.findall(text)}
    buttons = {name for text in texts for name in BUTTON_IN_TEXT.findall(text)}
    assert {"Numerics", "Latency", "Your rule"} <= tabs <= set(TABS)
    assert {"Measure", "Reverse all", "Check the laws", "Each copy"} <= buttons
    assert [name for name in buttons if f'"{name}"' not in page] == []


def test_every_kind_of_figure_is_described() -> None:
    assert all(figure.about and figure.form for figure in FIGURES.values())


def test_the_guide_lists_the_facts_figures_and_controls_that_there_are() -> None:
    assert written(GUIDE.read_text()) == GUIDE.read_text(), "run scripts/lesson_tables.py"
    assert all(
        f"| {i} | {lesson.title} | {lesson.minutes} |" in GUIDE.read_text() for i, lesson in enumerate(lessons(), 1)
    )
