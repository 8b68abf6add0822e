"""Facts about a workbench and the page around it, as plain data: the ground on which conditions are judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

VIEWS = ("Original", "Now", "Side by side", "Diff")
RULE_TAB = "Your rule"
TABS = ("Parameters", "Numerics", "Latency", "Cost", "Code", "Nodes", "Time line", RULE_TAB)

NUMERICS = {
    "identical": "every output has the bits of the original's",
    "rounding": "rounding explains every difference",
    "different": "rounding does not explain the difference",
    "open": "compared, without an answer",
}
LATENCY = {
    "faster": "a speed-up is shown",
    "slower": "a slow-down is shown",
    "undecided": "no difference is shown",
}

RULE = {
    "answered": "it was looked for in the open graph, and its text has no fault",
    "faulty": "its text has a fault",
    "lawful": "it has a site, and obeys every law of passes on the model",
    "unlawful": "it breaks a law of passes on the model",
}
"""The states of the rule that the learner writes. A rule that is lawful or not was answered as well."""


@dataclass(frozen=True)
class RuleFacts:
    """The answer to the text in the tab "Your rule": its sites, its near misses with their reasons, and its fault."""

    sites: tuple[str, ...] = ()
    misses: Mapping[str, str] = field(default_factory=dict)
    fault: str = ""
    """The first fault of the text, or the law that is broken."""
    laws: str = ""
    """The laws that it obeys, in words, where they were checked."""
    breaks_law: bool = False

    @property
    def states(self) -> tuple[str, ...]:
        """The keys of `RULE` that apply."""
        if self.fault and not self.breaks_law:
            return ("faulty",)
        if self.breaks_law:
            return "answered", "unlawful"
        return ("answered", "lawful") if self.laws and self.sites else ("answered",)


@dataclass(frozen=True)
class PassFacts:
    """One pass or edit: whether it is on, its sites with their switches, and the anchors of its near misses."""

    on: bool = False
    sites: Mapping[str, bool] = field(default_factory=dict)
    misses: tuple[str, ...] = ()

    @property
    def sites_on(self) -> int:
        return sum(self.sites.values())


@dataclass(frozen=True)
class Snapshot:
    """The state of a workbench, of the evidence on it, and of the page, at one moment."""

    model: str = ""
    passes: Mapping[str, PassFacts] = field(default_factory=dict)
    edits: Mapping[str, bool] = field(default_factory=dict)
    """The edits by hand, by name, and whether each is on."""
    selected: str = ""
    focus: str = ""
    """The pass whose sites the list shows."""
    view: str = "Now"
    tab: str = "Parameters"
    numerics: str = ""
    """A key of `NUMERICS`, of a comparison of the graph as it is now; empty where there is none."""
    latency: str = ""
    """A key of `LATENCY`, of a measurement of the graph as it is now; empty where there is none."""
    rule: RuleFacts | None = None
    """The answer to the rule that the learner writes, as its text and the graph are now; None where there is none."""
    is_original: bool = True
    """Whether the fingerprint is that of the original graph."""
    was_changed: bool = False
    """Whether anything was switched since the model was opened."""
    figures: Mapping[str, float | str | None] = field(default_factory=dict)
    """The figures that the lesson speaks of, by name (`fxopt.lessons.figures`); None where one is not known yet."""
    began: Mapping[str, float | str | None] = field(default_factory=dict)
    """The same figures when the step began."""

    @property
    def sites_on(self) -> int:
        return sum(one.sites_on for one in self.passes.values())

    def number(self, name: str, *, at_start: bool = False) -> float | None:
        """Return a figure that is a number, if it is known; that of the start of the step if it is to be."""
        value = (self.began if at_start else self.figures).get(name)
        return None if isinstance(value, str) else value
