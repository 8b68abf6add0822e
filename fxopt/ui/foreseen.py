"""What an act of the visitor leads back to: the browser paints it at once where it has painted it before.

This is an optimistic update, with the answer of Python painted over it a moment later. What a picture of the graph
depends on is what is on and what is looked at. An act is known to lead from one to the other where it was seen to do
so, or to be taken back by the same switch without a question. The browser keeps still where an act may be unanswered.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeAlias

from fxopt.ui.recent import keep_recent
from fxopt.ui.switches import as_class
from fxopt.workbench import Choice, Sites, Workbench

Choices: TypeAlias = tuple[Choice, ...]
End: TypeAlias = tuple[Choices, str]
"""Where an act leads: to what is on then, and the pass that is looked at."""

ACTS, PICTURES = 256, 24
"""So many are remembered of a visitor."""


class Foreseen:
    """Of one visitor: where acts led, and which pictures were painted."""

    def __init__(self) -> None:
        self._ends: dict[tuple[Choices, str], End] = {}
        self._painted: dict[Hashable, str] = {}

    def switched(self, widget: str, name: str, sites: Sites, *, on: bool, start: Choices, bench: Workbench) -> None:
        """The switch `widget`, of a pass or some sites of it, was moved without a question; `start` was before."""
        end, act = bench.choices, as_class(widget)
        if end == start:
            return
        self._led(start, act, (end, name))
        asks = on and bench.may_rest_on(name, sites)
        if not asks and bench.with_(name, sites, on=not on) == start:
            self._led(end, act, (start, name))

    def _led(self, start: Choices, act: str, end: End) -> None:
        keep_recent(self._ends, (start, act), end, ACTS)

    def ends(self, bench: Workbench, looked_at: str, entered: str) -> dict[str, End]:
        """Where acts lead from here, as far as that is known, by the class of their widget; the key Enter by its name.

        Args:
            bench: the workbench as it is.
            looked_at: the pass that is looked at.
            entered: the widget of the switch that Enter stands for; empty for none.
        """
        ends = {act: end for (start, act), end in self._ends.items() if start == bench.choices}
        if end := ends.get(as_class(entered)):
            ends["Enter"] = end
        known = {"icon-undo": bench.undone, "icon-redo": bench.redone, "reverse-all": bench.reversed}
        return ends | {act: (choices, looked_at) for act, choices in known.items() if choices is not None}

    def painted(self, look: Hashable, picture: str) -> None:
        """Remember that `picture`, by its digest, was painted for `look`, all that decides how it looks."""
        keep_recent(self._painted, look, picture, PICTURES)

    def pictures(self, looks: Mapping[str, Hashable]) -> dict[str, str]:
        """The pictures that were painted for `looks`, where one was; by the same keys."""
        return {act: self._painted[look] for act, look in looks.items() if look in self._painted}
