"""Record of the panels of a visitor's page: the state that each shows, and which are out of date."""

from __future__ import annotations

from collections.abc import Callable, Hashable


class Drawn:
    """The panels, in the order in which they were drawn first."""

    def __init__(self) -> None:
        self.everything = False
        """Whether every panel is being drawn, or only some."""
        self.awaited: set[str] = set()
        """The panels that the last requested run has yet to draw."""
        self.looks: dict[str, tuple[object, ...]] = {}
        """By panel, the look of the page (`fxopt.ui.fault.look_of`) when it was last drawn without a fault."""
        self._shown: dict[str, tuple[Callable[[], Hashable], Hashable]] = {}

    def note(self, name: str, shows: Callable[[], Hashable]) -> None:
        """Record that a panel is being drawn, and the state that `shows` gives for it now."""
        self.awaited.discard(name)
        self._shown[name] = (shows, shows())

    @property
    def stale(self) -> list[str]:
        """The panels whose state has changed since they were drawn."""
        return [name for name, (shows, shown) in self._shown.items() if shows() != shown]
