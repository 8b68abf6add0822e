"""A lesson as a value: its steps, questions and conditions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fxopt.lessons.acts import WRITE, Act
from fxopt.lessons.conditions import Condition, figures_in
from fxopt.lessons.figures import names_in
from fxopt.lessons.highlights import Highlight
from fxopt.lessons.needs import Needs

HINTS = 3
MOST_STEPS = 31
"""Steps of a lesson: a code to hand in has five bits for their number."""
MOST_WORDS = 60
"""Words of the text of a step, and of its explanation."""


@dataclass(frozen=True)
class Choice:
    """One answer to a question. It is right where its condition holds on the run."""

    text: str
    holds: Condition
    because: str = ""
    """The counter-example, for whoever chose it and was wrong; a right answer needs none."""


@dataclass(frozen=True)
class Misconception:
    """A number that a known mistake leads to, and its counter-example."""

    figure: str
    because: str


@dataclass(frozen=True)
class Question:
    """A prediction to make: one of `choices`, or a number that the run has as `figure`."""

    text: str
    choices: tuple[Choice, ...] = ()
    figure: str = ""
    tolerance: float = 0.0
    """The distance from the figure that counts as right; a part of the figure if `is_relative`."""
    is_relative: bool = False
    misconceptions: tuple[Misconception, ...] = ()
    otherwise: str = ""
    """The counter-example for any other wrong number."""

    def is_near(self, given: float, figure: float) -> bool:
        """Return whether a number is within the tolerance of a figure."""
        return abs(given - figure) <= self.tolerance * (abs(figure) if self.is_relative else 1)


@dataclass(frozen=True)
class Picture:
    """A picture beside the text of a step, and its content in words."""

    file: Path
    shows: str


@dataclass(frozen=True)
class Step:
    """One step: a text, a prediction, an act that is done when a condition holds, an explanation after it."""

    id: str
    title: str
    line: int = field(compare=False)
    """The line of its heading. It moves with the text above: steps are equal without it."""
    text: str
    explanation: str
    question: Question | None
    done: Condition | None
    highlight: tuple[Highlight, ...]
    hints: tuple[str, ...]
    needs: Needs | None
    """The state that the step begins with, where it is another than the last one leaves."""
    reset: Needs | None
    """The state that the last step leaves, for whoever skipped it or begins this one anew."""
    solution: tuple[Act, ...]
    """Acts after which the condition holds: for `fxopt lessons check`, which walks them. A learner never sees them."""
    picture: Picture | None = None

    @property
    def task(self) -> tuple[object, ...]:
        """All that its progress depends on: where it begins, its question, and its condition."""
        return self.needs, self.reset, self.question, self.done

    @property
    def pass_to_open(self) -> str:
        """The pass of the first site that it outlines, which the list is to show; empty if it outlines none."""
        return next((one.pass_name for one in self.highlight if one.kind == "site"), "")

    @property
    def figures_asked(self) -> Iterator[str]:
        """The names of the figures that decide its question."""
        if self.question is not None:
            yield from filter(None, (self.question.figure, *(one.figure for one in self.question.misconceptions)))
            for choice in self.question.choices:
                yield from figures_in(choice.holds)

    @property
    def texts(self) -> Iterator[str]:
        """The texts that may have figures in them."""
        yield from (self.text, self.explanation, *self.hints)
        if self.question is not None:
            yield self.question.text
            yield from (text for choice in self.question.choices for text in (choice.text, choice.because))
            yield from (one.because for one in self.question.misconceptions)
            yield self.question.otherwise

    @property
    def figures(self) -> Iterator[str]:
        """The names of the figures that it speaks of."""
        for text in self.texts:
            yield from names_in(text)
        if self.done is not None:
            yield from figures_in(self.done)
        yield from self.figures_asked


@dataclass(frozen=True)
class Lesson:
    """A lesson: a state of the workbench to begin with, and steps."""

    id: str
    title: str
    minutes: int
    about: str
    needs: Needs
    after: tuple[str, ...]
    steps: tuple[Step, ...]

    @property
    def writes_rules(self) -> bool:
        """Whether the learner writes a rule, which is Python and is run."""
        return any(act.name == WRITE for step in self.steps for act in step.solution)

    @property
    def figures(self) -> tuple[str, ...]:
        """The names of all figures that it speaks of."""
        return tuple(dict.fromkeys(name for step in self.steps for name in step.figures))


_FORMULA = re.compile(r"\$[^$]*\$")
_WORD = re.compile(r"[\w{][\w.{}'’-]*")


def words_in(text: str) -> int:
    """Return the number of words of a text; a formula counts as one.

    >>> words_in("The factor is $\\\\gamma / \\\\sigma$, here `{element.0.now.norm.weight}`.")
    6
    """
    return len(_WORD.findall(_FORMULA.sub(" formula ", text)))


def slug(title: str) -> str:
    """Return the id of a step with this title.

    >>> slug("What the graph shows!")
    'what-the-graph-shows'
    """
    return "-".join(re.findall(r"\w+", title.lower()))
