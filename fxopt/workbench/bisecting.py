"""Bisection by site: the smallest sets of sites that break the outputs, or make the model slower, by real runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from torch.fx import GraphModule

from fxopt.core import Exactness, Ledger
from fxopt.evidence.bisect import smallest_failing
from fxopt.evidence.latency import measure
from fxopt.evidence.latency_report import FEWEST_ROUNDS
from fxopt.evidence.numerics import Inputs, Original
from fxopt.evidence.running import RunStoppedError, stopping_unless
from fxopt.workbench.choosing import without
from fxopt.workbench.states import Choice
from fxopt.workbench.workbench import Workbench

Question = Literal["outputs", "latency"]
Progress = Callable[[float], bool | None]


class Place(NamedTuple):
    """A site of a pass, or an edit made by hand."""

    pass_name: str
    site: str

    def __str__(self) -> str:
        """Return it in words; the name of an edit has its site already."""
        return self.pass_name if self.site in self.pass_name else f"{self.pass_name} at {self.site}"


@dataclass(frozen=True)
class Tried:
    """One run: the sites that were on, and the answer."""

    sites: tuple[Place, ...]
    fails: bool
    verdict: str


@dataclass(frozen=True)
class Bisection:
    """The answer of `bisect`."""

    question: Question
    groups: tuple[tuple[Place, ...], ...]
    """Smallest sets: each fails by itself, and passes without any one of its members. Empty where nothing fails."""
    choices: tuple[Choice, ...]
    """Those of the workbench with the sites of all groups off; they replay by `Workbench.choose`."""
    tried: tuple[Tried, ...]
    """The evidence: each run, in its order."""
    after: str
    """The verdict on the graph without the groups; empty if it was not run."""
    seconds: float
    stopped: str | None = None
    """The reason for an early end, after which there may be further groups."""

    @property
    def culprits(self) -> tuple[Place, ...]:
        """The sites of all groups."""
        return tuple(place for group in self.groups for place in group)

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        runs = f"{len(self.tried)} run{'s' if len(self.tried) != 1 else ''}"
        does = "breaks the outputs" if self.question == "outputs" else "makes it slower"
        early = f"stopped early ({self.stopped}) after {runs}" if self.stopped else f"found in {runs}"
        if not self.groups:
            if self.stopped:
                return f"no answer: {early}"
            told = self.tried[0].verdict if self.tried else "no site is on"
            return f"no site {does}: {told}"
        named = "; ".join(" with ".join(map(str, group)) for group in self.groups)
        rest = f"; without: {self.after}" if self.after else ""
        return f"{named} {does}{rest} ({early})"


def bisect(
    wb: Workbench,
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
    *,
    question: Question = "outputs",
    inputs: Sequence[Inputs] | None = None,
    budget: float = 60.0,
    on_progress: Progress | None = None,
) -> Bisection:
    """Find the sites to blame among those that are on; the workbench stays as it is.

    Outputs are broken where they are not as exact as the sites declare: other bits, where all of them promise the very
    bits, and otherwise a difference that rounding fails to explain. That holds for edits by hand as well, which promise
    nothing. "Slower" is judged by `fxopt.evidence.measure`.

    Args:
        args, kwargs: an example.
        question: the failure that is looked for.
        inputs: several examples for the outputs, in place of `args` and `kwargs`.
        budget: the seconds after which no further run begins; above 0.
        on_progress: is told the share of the time that is used, and stops the search by returning False.

    Raises:
        EvidenceError: the original fails on the inputs.

    >>> import torch, fxopt
    >>> from fxopt.edits import SetArgument
    >>> class Model(torch.nn.Module):
    ...     def forward(self, x):
    ...         return torch.relu((x + 1) * 2) - 3
    >>> example = (torch.rand(2, 3),)
    >>> wb = fxopt.Workbench(Model(), example)
    >>> for node, value in (("add", 1.0), ("mul", 5.0), ("sub", 3.0)):
    ...     _ = wb.edit(SetArgument(node, "args[1]", value))
    >>> bisect(wb, example).groups
    ((Place(pass_name='SetArgument(mul, args[1], 5.0)', site='mul'),),)
    """
    search = _Search(wb, [(args, kwargs or {})] if inputs is None else inputs, question, budget, on_progress)
    groups: list[tuple[Place, ...]] = []
    left = tuple(Place(state.name, site.site) for state in wb.states for site in state.sites if site.on)
    after = ""
    try:
        while left and search.fails(left):
            groups.append(smallest_failing(left, search.fails))
            left = tuple(place for place in left if place not in groups[-1])
        after = search.tried[-1].verdict if groups and search.tried and left else ""
    except RunStoppedError as error:
        search.stopped = "cancelled" if search.cancelled else str(error)
    culprits = {place for group in groups for place in group}
    choices = search.without(culprits)[0] if culprits else wb.choices
    seconds = time.monotonic() - search.start
    return Bisection(question, tuple(groups), choices, tuple(search.tried), after, seconds, search.stopped)


class _Search:
    """The runs of a bisection, and the end of its time."""

    def __init__(
        self, wb: Workbench, inputs: Sequence[Inputs], question: Question, budget: float, told: Progress | None
    ) -> None:
        self._wb, self._inputs, self._question, self._budget = wb, inputs, question, budget
        self._told = told or (lambda share: None)
        self._original: Original | None = None
        self._exactness = {
            Place(state.name, site.site): site.exactness for state in wb.states for site in state.sites if site.on
        }
        self.start = time.monotonic()
        self.tried: list[Tried] = []
        self.stopped: str | None = None
        self.cancelled = False

    def fails(self, places: tuple[Place, ...]) -> bool:
        """Return whether the graph with these sites alone fails.

        Raises:
            RunStoppedError: the time is over, or the search was cancelled.
        """
        if self._left <= 0:
            raise RunStoppedError(f"out of time ({self._budget:g} s)")
        if not self._is_wanted():
            raise RunStoppedError("cancelled")
        gm = self._graph_of(frozenset(places))
        fails, verdict = self._judged(gm, places) if self._question == "outputs" else self._timed(gm)
        self.tried.append(Tried(places, fails, verdict))
        return fails

    @property
    def _left(self) -> float:
        """The seconds that are left."""
        return self._budget - (time.monotonic() - self.start)

    def _is_wanted(self) -> bool:
        self.cancelled = self.cancelled or self._told(min(1.0, 1 - self._left / self._budget)) is False
        return not self.cancelled

    def _judged(self, gm: GraphModule, places: Collection[Place]) -> tuple[bool, str]:
        with stopping_unless(self._is_wanted):
            if self._original is None:
                self._original = Original(self._wb.pristine, self._inputs)
            report = self._original.compare(gm)
        are_bitwise = all(self._exactness[place] is Exactness.BITWISE for place in places)
        return (not report.identical if are_bitwise else report.fits is False), report.verdict

    def _timed(self, gm: GraphModule) -> tuple[bool, str]:
        [(args, kwargs), *_] = self._inputs
        report = measure(
            self._wb.pristine, gm, args, kwargs, budget=self._left, on_progress=lambda share: self._is_wanted()
        )
        if report.stopped is not None and (report.cancelled or len(report.rounds) < FEWEST_ROUNDS):
            raise RunStoppedError(f"out of time ({self._budget:g} s)" if not report.cancelled else "cancelled")
        return report.shown and report.ratio < 1, report.verdict

    def _graph_of(self, wanted: frozenset[Place]) -> GraphModule:
        _, gm = self.without(set(self._exactness) - wanted)
        gm.graph.lint()
        gm.recompile()
        return gm

    def without(self, gone: Collection[Place]) -> tuple[tuple[Choice, ...], GraphModule]:
        """Return the choices of the workbench with these sites off, none that takes their place, and their graph.

        A site that goes off may leave its nodes to a pass that comes later, or let another site of its own pass match.
        """
        wb, out = self._wb, set(gone)
        while True:
            choices = wb.choices
            for place in out:
                choices = _left_out(wb, choices, place)
            gm = wb.trial(choices)
            new = {Place(entry.name, entry.site) for entry in Ledger.entries_of(gm)} - set(self._exactness) - out
            if not new:
                return choices, gm
            out |= new


def _left_out(wb: Workbench, choices: tuple[Choice, ...], place: Place) -> tuple[Choice, ...]:
    i = next(i for i, pass_ in enumerate(wb.order) if pass_.name == place.pass_name)
    choice = choices[i]
    if any(site.site == place.site for site in wb.states[i].sites):
        return without(choices, wb.states, i, place.site)
    left = Choice(choice.signature, choice.on, choice.without | {place.site})
    return (*choices[:i], left, *choices[i + 1 :])
