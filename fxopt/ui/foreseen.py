"""Optimistic updates: the browser paints the result of an act at once where it has painted that picture before.

The answer of Python is painted over it a moment later. A picture of the graph depends on the choices and on the pass in
focus. The result of an act is known where the same act led there before, or where the same switch takes a change back
with no question asked. The browser keeps still while an act may be unanswered.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeAlias

from fxopt.ui.recent import keep_recent
from fxopt.ui.switches import as_class
from fxopt.workbench import Choice, Sites, Workbench

Choices: TypeAlias = tuple[Choice, ...]
End: TypeAlias = tuple[Choices, str]
"""The state that an act leads to: the choices, and the pass in focus."""

ACTS, PICTURES = 256, 24
"""The most that are remembered of a visitor."""


class Foreseen:
    """The acts of one visitor with their results, and the pictures that were painted."""

    def __init__(self) -> None:
        self._ends: dict[tuple[Choices, str], End] = {}
        self._painted: dict[Hashable, str] = {}

    def switched(self, widget: str, name: str, sites: Sites, *, on: bool, start: Choices, bench: Workbench) -> None:
        """Record that the switch `widget`, of a pass or its sites, was moved from `start`, with no question asked."""
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
        """Return the known results of acts from here, by the class of their widget; the key Enter by its name.

        Args:
            bench: the present workbench.
            looked_at: the pass in focus.
            entered: the widget of the switch that Enter stands for; or empty.
        """
        ends = {act: end for (start, act), end in self._ends.items() if start == bench.choices}
        if end := ends.get(as_class(entered)):
            ends["Enter"] = end
        known = {"icon-undo": bench.undone, "icon-redo": bench.redone, "reverse-all": bench.reversed}
        return ends | {act: (choices, looked_at) for act, choices in known.items() if choices is not None}

    def painted(self, look: Hashable, picture: str) -> None:
        """Remember that `picture`, by its digest, was painted for `look`, the state that decides it."""
        keep_recent(self._painted, look, picture, PICTURES)

    def pictures(self, looks: Mapping[str, Hashable]) -> dict[str, str]:
        """Return the pictures that were painted for `looks`, by the same keys."""
        return {act: self._painted[look] for act, look in looks.items() if look in self._painted}
