"""A walk by the solutions finds what a learner would: what is true at once, what never comes true, what misleads."""

from __future__ import annotations

import pytest

from fxopt.lessons import LessonError, Progress, faults_of, lesson_of
from fxopt.lessons.walking import Walk
from fxopt.models import Inputs
from fxopt.workbench import Workbench
from fxopt.writing import TEMPLATES, Answer
from tests.lessons.small import TEXT, opened, timed


def faults(old: str = "", new: str = "") -> list[str]:
    assert old in TEXT
    return [str(one) for one in faults_of(lesson_of(TEXT.replace(old, new, 1)), opened, timed(0.5))]


def test_a_lesson_without_faults_has_none() -> None:
    assert faults() == []


COMPARE = TEXT[TEXT.index("done: {all:") : TEXT.rindex("```")].strip()
FOLD, SOLVE = "{site_on: [FoldBatchNorm, _1]}", "solution: {turn_on: [FoldBatchNorm, _1]}"

BROKEN = {
    "true at its start": (FOLD, "{sites_on: {at_most: 1}}", "done before it begins"),
    "never true": (FOLD, "{site_on: [FoldBatchNorm, _2]}", "not done after its solution"),
    "always false": (FOLD, "{all: [{fingerprint: original}, {fingerprint: changed}]}", "not done after its solution"),
    "an act that fails": (SOLVE, "solution: {turn_on: [FoldBatchNorm, _2]}", "line 25: turn_on is impossible here"),
    "a node that is not there": (SOLVE, "solution: [{select: conv}]", "no node conv"),
    "two right answers": ("{figure: {of: nodes.delta, exactly: 0}}", "{fingerprint: changed}", "2 answers are right"),
    "no right answer": ("exactly: -1}", "exactly: -2}", "no answer is right"),
    "no counter-example": ('      because: "The graph has {nodes.now} nodes now: the norm is gone."\n', "", "because"),
    "a figure that is not there": ("{nodes.before} nodes", "{rows.conv.now} rows", "rows.conv.now is unknown"),
    "a figure that comes too late": ("{nodes.before} nodes", "{error.max_abs}", "unknown at the start of the step"),
    "a control that is not there": ("node:_1", "node:_11", "there is no node '_11'; did you mean '_1'?"),
    "a site that is not there": ("node:_1", "site:FoldBatchNorm/_2", "FoldBatchNorm: there is no site '_2'"),
    "a misconception that is right": ("- number: parameters.now", "- number: parameters.before", "not a misconception"),
    "a number that the run lacks": ("number: parameters.before", "number: error.max_abs", "does not show the number"),
    "a state to begin anew with that cannot be": (
        "done: {all:", "reset: {model: small, on: {FoldBatchNorm: [_7]}}\ndone: {all:", "has no site _7",
    ),
    "true where it begins anew": (
        COMPARE,
        "reset: {model: small}\ndone: {sites_on: {exactly: 0}}\nsolution: {reverse_all: true}\nhints: [1, 2, 3]",
        "begun with its reset, the step 'Compare' is done before it begins",
    ),
    "a state that cannot be": ("{model: small}", "{model: small, on: {FoldBatchNorm: [_7]}}", "has no site _7"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BROKEN)
def test_a_walk_finds_the_fault(kind: str) -> None:
    old, new, told = BROKEN[kind]
    found = faults(old, new)
    assert any(told in one and "line" in one for one in found), found


WRITES = TEXT.replace("[{tab: Numerics}, {compare: true}]", "[{tab: Your rule}, {write: raise SystemExit}]")


def test_a_rule_in_a_solution_is_run_only_where_it_is_allowed() -> None:
    assert WRITES != TEXT
    run: list[str] = []

    def ask(text: str, wb: Workbench, inputs: Inputs, checks: bool) -> Answer:
        run.append(text)
        return Answer()

    (fault,) = faults_of(lesson_of(WRITES), opened, timed(0.5))
    assert "fxopt lessons check --allow-code" in str(fault)
    assert "line 55" in str(fault)
    assert any(
        "not done after its solution" in str(one) for one in faults_of(lesson_of(WRITES), opened, timed(0.5), ask=ask)
    )
    assert run == [TEMPLATES[0].text, "raise SystemExit"], "the editor begins with a template"


def test_a_model_that_the_zoo_lacks_is_a_fault() -> None:
    lesson = lesson_of(TEXT)
    assert "no model is called 'small'" in str(next(faults_of(lesson)))


def test_a_learner_goes_on_by_acts_and_right_answers_alone() -> None:
    lesson = lesson_of(TEXT)
    progress, walk = Progress(lesson), Walk(lesson, opened, timed(0.5))
    assert progress.needs == lesson.needs
    progress.observe(walk.snapshot())
    assert not progress.now.has_begun, "the model of the step is yet to be opened"
    progress.begin(walk.snapshot())
    progress.observe(walk.snapshot())
    progress.go(1)
    assert (progress.at, progress.awaits_prediction) == (0, True)
    for act in lesson.steps[0].solution:
        walk.do(act)
    progress.observe(walk.snapshot())
    assert not progress.now.is_done, "the prediction comes first"
    progress.predict(0)
    progress.observe(walk.snapshot())
    assert progress.now.is_done
    assert progress.now.counter_example.startswith("The graph has {nodes.now}")
    assert (progress.is_passed, progress.reached) == (False, 0)
    walk.wb.reverse_all()  # what the run showed when the act was done still counts
    progress.observe(walk.snapshot())
    progress.predict(1)
    assert (progress.is_passed, progress.now.tries, progress.now.counter_example) == (True, 2, "")
    progress.predict(0)  # a right answer stays
    assert progress.is_passed
    progress.go(1)
    assert progress.step.id == "count"


def test_a_number_is_judged_by_the_run_and_a_known_mistake_has_its_own_answer() -> None:
    lesson = lesson_of(TEXT)
    progress, walk = Progress(lesson), Walk(lesson, opened, timed(0.5))
    progress.skip()
    walk.do(lesson.steps[0].solution[0])
    now = walk.snapshot()
    before, after = now.number("parameters.before"), now.number("parameters.now")
    assert before is not None
    assert after is not None
    progress.predict(after)
    progress.observe(now)
    assert progress.now.counter_example == "That is the count after the fold."
    progress.predict(1e9)
    progress.observe(now)
    assert progress.now.counter_example.startswith("Open the tab")
    progress.predict(before + 1)
    progress.observe(now)
    assert progress.is_passed, "within the tolerance"


def test_hints_come_one_by_one_and_a_reset_keeps_the_count() -> None:
    progress = Progress(lesson_of(TEXT))
    assert progress.hints == ()
    for _ in range(5):
        progress.hint()
    assert progress.hints == ("look", "point", "turn it on")
    progress.reset()
    assert (progress.now.hints, progress.now.answer, progress.now.is_done) == (3, None, False)


def test_a_skipped_step_is_marked_and_can_be_done_later() -> None:
    lesson = lesson_of(TEXT)
    progress, walk = Progress(lesson), Walk(lesson, opened, timed(0.5))
    for _ in lesson.steps:
        progress.skip()
    assert progress.is_finished
    assert [one.was_skipped for one in progress.steps] == [True, True, True]
    progress.go(0)
    progress.begin(walk.snapshot())
    progress.predict(1)
    walk.do(lesson.steps[0].solution[0])
    progress.observe(walk.snapshot())
    assert progress.has_passed(0)


def test_what_cannot_be_answered_is_refused() -> None:
    progress = Progress(lesson_of(TEXT))
    with pytest.raises(LessonError, match="give 0 to 1"):
        progress.predict(2)
    with pytest.raises(LessonError, match="give 0 to 1"):
        progress.predict(0.5)
    progress.at = 2
    with pytest.raises(LessonError, match="asks nothing"):
        progress.predict(0)


STARTED = TEXT.replace("{of: nodes.delta, exactly: 0}", "{of: nodes.now, exactly: start}").replace(
    "{of: nodes.delta, exactly: -1}", "{of: nodes.now, below: start}"
)


def test_a_figure_is_judged_against_its_value_when_the_step_began() -> None:
    lesson = lesson_of(STARTED)
    assert STARTED.count("start}") == 2
    assert list(faults_of(lesson, opened, timed(0.5))) == []
    progress, walk = Progress(lesson), Walk(lesson, opened, timed(0.5))
    progress.begin(walk.snapshot())
    progress.predict(1)
    walk.do(lesson.steps[0].solution[0])
    progress.observe(walk.snapshot())
    assert progress.is_passed


COUNT = "ask:\n  question: How many parameters"
RESET = TEXT.replace(COUNT, "reset: {model: small, on: {FoldBatchNorm: all}}\n" + COUNT)


def test_a_step_after_a_skipped_one_begins_with_its_reset() -> None:
    lesson = lesson_of(RESET)
    assert list(faults_of(lesson, opened, timed(0.5))) == []
    progress = Progress(lesson)
    progress.skip()
    assert progress.needs == lesson.steps[1].reset is not None
    walk = Walk(lesson, opened, timed(0.5))
    progress.observe(walk.snapshot())
    assert not progress.now.has_begun
    assert progress.needs is not None
    walk.begin(progress.needs)
    progress.begin(walk.snapshot())
    assert (progress.needs, progress.begins_anew_with) == (None, lesson.steps[1].reset)
    assert walk.wb.is_changed
    other = Progress(lesson)
    other.now.is_done = other.now.is_right = True
    other.go(1)
    assert other.needs is None, "the step before leaves this state"


def test_a_question_without_an_act_waits_until_the_run_shows_its_figures() -> None:
    lesson = lesson_of(TEXT.replace("number: parameters.before", "number: latency.ratio"))
    progress, walk = Progress(lesson), Walk(lesson, opened, timed(0.5))
    progress.skip()
    walk.do(lesson.steps[0].solution[0])
    progress.predict(2)
    progress.observe(walk.snapshot())
    assert not progress.now.is_judged
    walk.measure()
    progress.observe(walk.snapshot())
    assert progress.is_passed


def test_a_walk_ends_where_it_is_no_longer_wanted() -> None:
    answers = iter([True, True, False])
    found = list(faults_of(lesson_of(TEXT.replace(FOLD, "{fingerprint: original}")),
                            opened, timed(0.5), lambda: next(answers)))  # fmt: skip
    assert [fault.line for fault in found] == [9, 9], "the first step is walked, and no other"
