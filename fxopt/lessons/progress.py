"""The way of one learner through a lesson: plain data, which goes on by the learner's acts alone.

A step is passed once its condition has held on a snapshot, and its question has the answer that this snapshot shows.
The prediction comes first; it is judged when the act is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from fxopt.lessons.errors import LessonError
from fxopt.lessons.facts import Snapshot
from fxopt.lessons.lesson import Lesson, Question, Step
from fxopt.lessons.needs import Needs


@dataclass
class StepProgress:
    """The state of one step."""

    has_begun: bool = False
    """The mark of a step whose first state the workbench was in."""
    is_done: bool = False
    """The mark of a step whose condition has held since it began."""
    answer: float | None = None
    """The number of the chosen answer, or the number that was given."""
    tries: int = 0
    """The answers that were judged."""
    is_judged: bool = False
    """The mark of a last answer that was judged."""
    is_right: bool = False
    counter_example: str = ""
    """For the last answer that was judged, if it was wrong."""
    hints: int = 0
    """The number of hints that were asked for."""
    was_skipped: bool = False
    shown: tuple[float | None, ...] = ()
    """The findings of the run at that act: for each answer whether it holds, or the figures of the question."""
    before: Mapping[str, float | str | None] = field(default_factory=dict)
    """The figures when the step began, for its text."""
    after: Mapping[str, float | str | None] = field(default_factory=dict)
    """The figures when the act was done, for its explanation."""


@dataclass
class Progress:
    """The steps of a lesson as far as the learner has come."""

    lesson: Lesson
    at: int = 0
    """The number of the step that is shown."""
    steps: list[StepProgress] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.steps = self.steps or [StepProgress() for _ in self.lesson.steps]

    # ---- questions

    @property
    def step(self) -> Step:
        return self.lesson.steps[self.at]

    @property
    def now(self) -> StepProgress:
        return self.steps[self.at]

    @property
    def needs(self) -> Needs | None:
        """The state that the step begins with, if it is yet to begin.

        The first step begins with that of the lesson, and a step after one that was skipped with its `reset`.
        """
        if self.now.has_begun:
            return None
        is_after_skipped = self.at > 0 and not self.has_passed(self.at - 1)
        return self.begins_anew_with if self.at == 0 or self.step.needs or is_after_skipped else None

    @property
    def begins_anew_with(self) -> Needs | None:
        """The state that the step begins anew with; None where that is the one in which it began."""
        return self.step.needs or (self.lesson.needs if self.at == 0 else self.step.reset)

    @property
    def model(self) -> str:
        """The key of the model that the step is about: that of its state, or of the last one before it."""
        before = (step.needs for step in reversed(self.lesson.steps[: self.at + 1]))
        return next(filter(None, before), self.lesson.needs).model

    @property
    def is_passed(self) -> bool:
        """Whether the step that is shown is passed."""
        return self.has_passed(self.at)

    def has_passed(self, i: int) -> bool:
        step, state = self.lesson.steps[i], self.steps[i]
        return (step.done is None or state.is_done) and (step.question is None or state.is_right)

    @property
    def reached(self) -> int:
        """The number of the furthest step that may be shown: all before it are passed or skipped."""
        last = len(self.steps) - 1
        return next((i for i in range(last) if not self.has_passed(i) and not self.steps[i].was_skipped), last)

    @property
    def is_finished(self) -> bool:
        """Whether each step is passed or skipped."""
        return all(self.has_passed(i) or state.was_skipped for i, state in enumerate(self.steps))

    @property
    def awaits_prediction(self) -> bool:
        """Whether the question of the step has no answer yet."""
        return self.step.question is not None and self.now.answer is None

    @property
    def hints(self) -> Sequence[str]:
        """The hints that were asked for."""
        return self.step.hints[: self.now.hints]

    # ---- acts

    def begin(self, snapshot: Snapshot) -> None:
        """Begin the step on a workbench that is in the state that the step needs."""
        if not self.now.has_begun:
            self.now.has_begun, self.now.before = True, dict(snapshot.figures)

    def observe(self, snapshot: Snapshot) -> None:
        """Look at a snapshot: the act of the step may be done by now, and the prediction is judged then.

        A step that needs no state of its own begins here; another one waits for `begin`.
        """
        step, state = self.step, self.now
        if self.needs is not None:
            return
        self.begin(snapshot)
        if self.awaits_prediction or self.is_passed:
            return
        snapshot = replace(snapshot, began=state.before)
        if not state.is_done and is_decided(step, snapshot):
            state.is_done = step.done is not None
            state.after = dict(snapshot.figures)
            state.shown = shown_of(step.question, snapshot) if step.question is not None else ()
            self._judge()

    @property
    def lacks_its_start(self) -> bool:
        """Whether the step has begun, and the figures of its beginning are unknown, as after a reload."""
        return self.now.has_begun and not self.now.before.keys() >= set(self.step.figures)

    def recall(self, start: Snapshot) -> None:
        """Fill in the figures of a step that was begun before its text changed, or before a reload."""
        if self.now.has_begun:
            self.now.before = {**start.figures, **self.now.before}

    def recall_end(self, snapshot: Snapshot) -> None:
        """Fill in the figures of a step that was passed before its text changed, or before a reload."""
        if self.is_passed:
            self.now.after = {**snapshot.figures, **self.now.after}

    def predict(self, answer: float) -> None:
        """Answer the question of the step: the number of a choice, counted from 0, or a number.

        Before the act is done, an answer may be changed freely; after it, each one is judged.

        Raises:
            LessonError: the step has no question, or no such choice.
        """
        question = self.step.question
        if question is None:
            raise LessonError(f"the step {self.step.title!r} asks nothing")
        if question.choices and answer not in range(len(question.choices)):
            raise LessonError(f"there is no answer {answer}; give 0 to {len(question.choices) - 1}")
        if self.now.is_right:
            return
        self.now.answer, self.now.is_judged = answer, False
        if self.now.is_done:
            self._judge()

    def _judge(self) -> None:
        state, question = self.now, self.step.question
        if question is None or state.answer is None or state.is_judged:
            return
        state.tries += 1
        state.is_judged = True
        state.is_right, state.counter_example = judged(question, state.answer, state.shown)

    def hint(self) -> None:
        """Ask for the next hint."""
        self.now.hints = min(self.now.hints + 1, len(self.step.hints))

    def skip(self) -> None:
        """Mark the step as skipped, and go to the next."""
        if not self.is_passed:
            self.now.was_skipped = True
        self.go(self.at + 1)

    def go(self, to: int) -> None:
        """Show another step, up to the furthest that was reached; any other number leaves all as it is."""
        if 0 <= to <= self.reached:
            self.at = to

    def carried_to(self, lesson: Lesson) -> Progress:
        """Return the progress in another text of the lesson.

        Steps with the same task in both keep theirs, wherever they stand. The learner stays at their step; a step
        before it that is not passed is marked as skipped.
        """
        known = {step.id: (step, state) for step, state in zip(self.lesson.steps, self.steps)}
        if lesson.needs != self.lesson.needs:
            known.pop(self.lesson.steps[0].id)
        states = []
        for step in lesson.steps:
            old, state = known.get(step.id, (None, StepProgress()))
            is_the_same = old is not None and old.task == step.task
            states.append(replace(state) if is_the_same else StepProgress())
        ids = [step.id for step in lesson.steps]
        at = ids.index(self.step.id) if self.step.id in ids else min(self.at, len(ids) - 1)
        new = Progress(lesson, at, states)
        for i, state in enumerate(states[:at]):
            state.was_skipped = state.was_skipped or not new.has_passed(i)
        return new

    def reset(self) -> None:
        """Begin the step that is shown anew. Its tries and hints stay counted."""
        old = self.now
        self.steps[self.at] = StepProgress(tries=old.tries, hints=old.hints)


def is_decided(step: Step, snapshot: Snapshot) -> bool:
    """Return whether the act of a step is done; without one, whether the run shows all that its question is about."""
    if step.done is not None:
        return step.done.holds(snapshot)
    return all(snapshot.number(name) is not None for name in step.figures_asked)


def shown_of(question: Question, snapshot: Snapshot) -> tuple[float | None, ...]:
    """Return the facts that decide a question: for each choice whether it holds, or the figures that it speaks of."""
    if question.choices:
        return tuple(float(choice.holds.holds(snapshot)) for choice in question.choices)
    return tuple(snapshot.number(name) for name in (question.figure, *(m.figure for m in question.misconceptions)))


def judged(question: Question, answer: float, shown: Sequence[float | None]) -> tuple[bool, str]:
    """Return whether an answer is right by the findings of the run, and the counter-example if it is wrong."""
    if question.choices:
        is_right = bool(shown[int(answer)])
        return is_right, "" if is_right else question.choices[int(answer)].because
    right, *known = shown
    if right is not None and question.is_near(answer, right):
        return True, ""
    for misconception, value in zip(question.misconceptions, known):
        if value is not None and question.is_near(answer, value):
            return False, misconception.because
    return False, question.otherwise
