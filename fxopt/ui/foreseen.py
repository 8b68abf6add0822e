"""What an act of the visitor leads back to: the browser paints it at once where it has painted it before.

Nothing is guessed. A picture of the graph depends on what is on and on what is looked at. An act is known to lead from
one to the other where it was seen to, or was seen to be taken back; what Python says a moment later is painted anyway.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeAlias, TypeVar

from fxopt.workbench import Choice

Choices: TypeAlias = tuple[Choice, ...]
End: TypeAlias = tuple[Choices, str]
"""Where an act leads: to what is on then, and the pass that is looked at."""
K = TypeVar("K")
V = TypeVar("V")

ACTS, PICTURES = 256, 24
"""So many are remembered of a visitor."""


class Foreseen:
    """Of one visitor: where acts led, and which pictures were painted."""

    def __init__(self) -> None:
        self._ends: dict[tuple[Choices, str], End] = {}
        self._painted: dict[Hashable, str] = {}

    def led(self, start: Choices, act: str, end: End) -> None:
        """Remember that `act`, the class of a widget, leads from `start` to `end`."""
        _keep(self._ends, (start, act), end, ACTS)

    def ends(self, start: Choices) -> dict[str, End]:
        """Where the acts lead that are known to lead somewhere from `start`."""
        return {act: end for (of, act), end in self._ends.items() if of == start}

    def painted(self, look: Hashable, picture: str) -> None:
        """Remember that `picture`, by its digest, was painted for `look`, all that decides how it looks."""
        _keep(self._painted, look, picture, PICTURES)

    def pictures(self, looks: Mapping[str, Hashable]) -> dict[str, str]:
        """The pictures that were painted for `looks`, where one was; by the same keys."""
        return {act: self._painted[look] for act, look in looks.items() if look in self._painted}


def _keep(kept: dict[K, V], key: K, value: V, most: int) -> None:
    kept.pop(key, None)
    kept[key] = value
    while len(kept) > most:
        del kept[next(iter(kept))]
