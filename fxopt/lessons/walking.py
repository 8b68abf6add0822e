"""A walk through a lesson without a page: the acts of its solutions on a workbench, and the faults that show up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

from fxopt.core import shared_copy
from fxopt.errors import FxoptError
from fxopt.evidence import LatencyReport, NumericsReport, compare_outputs, measure
from fxopt.lessons.acts import Act
from fxopt.lessons.errors import LessonError
from fxopt.lessons.facts import RULE_TAB, Snapshot
from fxopt.lessons.judging import faults_after, faults_before
from fxopt.lessons.lesson import Lesson, Step
from fxopt.lessons.needs import Needs
from fxopt.lessons.progress import is_decided
from fxopt.lessons.snapshot import Seen, snapshot_of
from fxopt.models import Inputs, model_source
from fxopt.workbench import Choice, Workbench
from fxopt.writing import TEMPLATES, Answer, RuleProcess

Measure = Callable[[Workbench, Inputs], LatencyReport]
Open = Callable[[Needs], tuple[Workbench, Inputs]]
Ask = Callable[[str, Workbench, Inputs, bool], Answer]
"""Runs a text of rules on the original graph of a workbench; whether the laws are checked is the last argument."""


def measured(wb: Workbench, inputs: Inputs) -> LatencyReport:
    """Measure the graph as it is now against the original."""
    return measure(wb.pristine, wb.current, *inputs, early=True)


def opened(needs: Needs) -> tuple[Workbench, Inputs]:
    """Return a new workbench for the model of a state, with every pass off, and the example inputs.

    Raises:
        ModelError: the zoo has no such model, or not at these sizes.
    """
    source = model_source(needs.model)
    model = source.build()
    inputs = source.inputs(model, needs.batch, needs.sequence)
    return Workbench(model, *inputs), inputs


def asked(text: str, wb: Workbench, inputs: Inputs, checks: bool) -> Answer:
    """Run a text of rules in a process with limits. It is Python: only for whoever trusts its author.

    Raises:
        FxoptError: the graph is too large for another process, or this system has no `fork`.
    """
    with closing(RuleProcess()) as process:
        process.hold(wb.pristine, *inputs)
        return process.ask(text, checks=checks)


def refused(text: str, wb: Workbench, inputs: Inputs, checks: bool) -> Answer:
    """Run no text of a lesson.

    Raises:
        LessonError: always.
    """
    raise LessonError("its rule is Python, and is run only where that is allowed: fxopt lessons check --allow-code")


class Walk:
    """A learner without a page: a workbench, and the state of a page around it.

    Args:
        open_: gives a workbench of its own for the model of a state.
        measure: measures the latency.
        ask: runs the rules that a solution writes. Where it is not given, none is run.
    """

    def __init__(self, lesson: Lesson, open_: Open = opened, measure: Measure = measured, ask: Ask = refused) -> None:
        self.lesson, self._open, self._measure, self._ask = lesson, open_, measure, ask
        self.seen = Seen()
        self._text = TEMPLATES[0].text  # as in the editor of the page
        self._numerics: tuple[tuple[Choice, ...], NumericsReport] | None = None
        self._latency: tuple[tuple[Choice, ...], LatencyReport] | None = None
        self.begin(lesson.needs, *(step.pass_to_open for step in lesson.steps[:1]))

    def begin(self, needs: Needs, focus: str = "") -> None:
        """Open a model anew, in the state that is needed; the list shows the sites of the pass in focus, if any.

        Raises:
            LessonError: there is no such model, or the state cannot be made of it.
        """
        try:
            self.wb, self._inputs = self._open(needs)
        except FxoptError as error:
            raise LessonError(str(error), needs.line) from error
        needs.begin(self.wb)
        self._numerics = self._latency = None
        tab = self.seen.tab  # it stays open, and so does the rule in it
        self.seen = Seen(model=needs.model, inputs=self._inputs, focus=focus)
        self.open_tab(tab)

    def snapshot(self) -> Snapshot:
        """Return the facts as they are now."""
        choices = self.wb.choices
        numerics = self._numerics[1] if self._numerics and self._numerics[0] == choices else None
        latency = self._latency[1] if self._latency and self._latency[0] == choices else None
        return snapshot_of(self.wb, replace(self.seen, numerics=numerics, latency=latency), self.lesson.figures)

    def do(self, act: Act) -> None:
        """Do the acts of a learner.

        Raises:
            LessonError: it is impossible here; the error has the line of the act.
        """
        try:
            _DO[act.name](self, act.what)
        except FxoptError as error:
            raise LessonError(f"{act.name} is impossible here: {error}", act.line) from error

    def compare(self) -> None:
        gm = shared_copy(self.wb.current)
        self._numerics = self.wb.choices, compare_outputs(self.wb.pristine, gm, [self._inputs])

    def measure(self) -> None:
        self._latency = self.wb.choices, self._measure(self.wb, self._inputs)

    def open_tab(self, name: str) -> None:
        self.look(tab=name)
        if name == RULE_TAB:
            self.write(self._text)

    def write(self, text: str, *, checks: bool = False) -> None:
        """Write a rule: it is looked for in the open graph, and its laws are checked if they are to be."""
        self._text = text
        self.look(rule=self._ask(text, self.wb, self._inputs, checks))

    def look(self, **changes: Any) -> None:
        self.seen = replace(self.seen, **changes)

    def select(self, name: str) -> None:
        graphs = (self.wb.pristine, self.wb.current)
        if all(name != node.name for gm in graphs for node in gm.graph.nodes):
            raise FxoptError(f"the graph has no node {name}")
        self.look(selected=name)


_DO: Mapping[str, Callable[[Walk, Mapping[str, Any]], object]] = {
    "turn_on": lambda walk, what: walk.wb.turn_on(what["pass"], what["node"]),
    "turn_off": lambda walk, what: walk.wb.turn_off(what["pass"], what["node"]),
    "select": lambda walk, what: walk.select(what["is"]),
    "focus": lambda walk, what: walk.look(focus=what["is"]),
    "view": lambda walk, what: walk.look(view=what["is"]),
    "tab": lambda walk, what: walk.open_tab(what["is"]),
    "compare": lambda walk, what: walk.compare(),
    "measure": lambda walk, what: walk.measure(),
    "undo": lambda walk, what: walk.wb.undo(),
    "redo": lambda walk, what: walk.wb.redo(),
    "reverse_all": lambda walk, what: walk.wb.reverse_all(),
    "write": lambda walk, what: walk.write(what["is"]),
    "check_rule": lambda walk, what: walk.write(walk._text, checks=True),
    "edit": lambda walk, what: walk.wb.edit(what["edit"]),
    "edit_off": lambda walk, what: walk.wb.turn_off(what["is"]),
}


def faults_of(
    lesson: Lesson,
    open_: Open = opened,
    measure: Measure = measured,
    wanted: Callable[[], bool] = lambda: True,
    ask: Ask = refused,
) -> Iterator[LessonError]:
    """Walk a lesson by its solutions, and yield each fault of it, in the order of the steps.

    A condition that is true before its act, or false after it, is a fault; so are a question to which the run shows no
    answer or several, a wrong answer without a counter-example, a figure that is unknown where it is told, and a
    highlighted node or site that is not there. A step with a `reset` is walked a second time, from that state.

    Args:
        wanted: asked before each act; the walk ends where it returns False.
        ask: runs the rules that a solution writes (`asked`). Where it is not given, such an act is a fault.
    """
    try:
        walk = Walk(lesson, open_, measure, ask)
    except LessonError as error:
        yield error
        return
    for step in lesson.steps:
        if not wanted():
            return
        try:
            if step.reset is not None:
                again = Walk(lesson, open_, measure, ask)
                again.begin(step.reset, step.pass_to_open)
                for fault in _walked(again, step, wanted):
                    yield LessonError(f"begun with its reset, {fault.reason}", fault.line)
            if step.needs is not None:
                walk.begin(step.needs, step.pass_to_open)
            yield from _walked(walk, step, wanted)
        except LessonError as error:
            yield error
            return


def _walked(walk: Walk, step: Step, wanted: Callable[[], bool]) -> Iterator[LessonError]:
    """Do the solution of a step, and yield the faults of it.

    Raises:
        LessonError: an act of the solution is impossible.
    """
    before = walk.snapshot()
    before = replace(before, began=before.figures)
    yield from faults_before(step, before, walk.wb)
    for act in step.solution:
        if not wanted():
            return
        walk.do(act)
    after = replace(walk.snapshot(), began=before.figures)
    if step.done is not None or step.reset is None or is_decided(step, after):
        yield from faults_after(step, after)
