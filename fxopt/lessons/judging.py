"""Faults of one step, judged on the facts before and after its solution."""

from __future__ import annotations

from collections.abc import Iterator

from fxopt.lessons.errors import LessonError, unknown
from fxopt.lessons.facts import Snapshot
from fxopt.lessons.figures import names_in
from fxopt.lessons.highlights import Highlight
from fxopt.lessons.lesson import Question, Step
from fxopt.lessons.progress import shown_of
from fxopt.workbench import Workbench


def faults_before(step: Step, now: Snapshot, wb: Workbench) -> Iterator[LessonError]:
    """Yield the faults of a step that the state before its solution shows."""
    if step.done is not None and step.done.holds(now):
        told = f"the step {step.title!r} is done before it begins: its condition holds at the start"
        yield LessonError(told, step.line)
    texts = [step.text, *step.hints, step.question.text if step.question else ""]
    yield from _unknown_figures(step, texts, now, "at the start of the step")
    for highlight in step.highlight:
        yield from _absent(step, highlight, wb)


def faults_after(step: Step, now: Snapshot) -> Iterator[LessonError]:
    """Yield the faults of a step that the state after its solution shows."""
    if step.done is not None and not step.done.holds(now):
        told = f"the step {step.title!r} is not done after its solution: its condition does not hold"
        yield LessonError(told, step.line)
    yield from _unknown_figures(step, [step.explanation], now, "at the end of the step")
    if step.question is not None:
        yield from _faults_of_question(step, step.question, now)


def _faults_of_question(step: Step, question: Question, now: Snapshot) -> Iterator[LessonError]:
    shown = shown_of(question, now)
    if question.choices:
        right = [choice.text for choice, holds in zip(question.choices, shown) if holds]
        if len(right) != 1:
            told = "no answer is right" if not right else f"{len(right)} answers are right: {'; '.join(right)}"
            yield LessonError(f"in the step {step.title!r} the run shows that {told}", step.line)
        for choice, holds in zip(question.choices, shown):
            if not holds and not choice.because:
                yield LessonError(f"the wrong answer {choice.text!r} lacks 'because', its counter-example", step.line)
        yield from _unknown_figures(step, [one.because for one in question.choices], now, "at the end of the step")
        return
    figure, *mistaken = shown
    if figure is None:
        yield LessonError(f"the run does not show the number {question.figure}", step.line)
        return
    for misconception, value in zip(question.misconceptions, mistaken):
        if value is None:
            yield LessonError(f"the run does not show the number {misconception.figure}", step.line)
        elif question.is_near(value, figure):
            yield LessonError(f"{misconception.figure} is a right answer in the run, not a misconception", step.line)
    texts = [question.otherwise, *(one.because for one in question.misconceptions)]
    yield from _unknown_figures(step, texts, now, "at the end of the step")


def _unknown_figures(step: Step, texts: list[str], now: Snapshot, when: str) -> Iterator[LessonError]:
    for name in dict.fromkeys(name for text in texts for name in names_in(text)):
        if now.figures.get(name) is None:
            yield LessonError(f"in the step {step.title!r}, the figure {name} is unknown {when}", step.line)


def _absent(step: Step, highlight: Highlight, wb: Workbench) -> Iterator[LessonError]:
    names = [node.name for node in wb.current.graph.nodes]
    if highlight.kind == "node" and highlight.name not in names:
        yield LessonError(unknown("node", highlight.name, names), step.line)
    if highlight.kind == "site":
        state = wb.state_of(highlight.pass_name)
        sites = [*(one.site for one in state.sites), *(one.site for one in state.misses)]
        if highlight.name not in sites:
            yield LessonError(f"{highlight.pass_name}: {unknown('site', highlight.name, sites)}", step.line)
