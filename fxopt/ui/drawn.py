"""What the panels of a visitor's page show, and which of them would show something else by now."""

from __future__ import annotations

from collections.abc import Callable, Hashable


class Drawn:
    """The panels, in the order in which they were drawn first."""

    def __init__(self) -> None:
        self.everything = False
        """Whether every panel is being drawn, not some alone."""
        self.awaited: set[str] = set()
        """The panels that the run that was asked for last draws, as far as they are not drawn yet."""
        self.looks: dict[str, tuple[object, ...]] = {}
        """By panel, what the visitor looked at (`fxopt.ui.fault.look_of`) when it was last drawn without a fault."""
        self._shown: dict[str, tuple[Callable[[], Hashable], Hashable]] = {}

    def note(self, name: str, shows: Callable[[], Hashable]) -> None:
        """A panel is being drawn, which shows what `shows` says now."""
        self.awaited.discard(name)
        self._shown[name] = (shows, shows())

    @property
    def stale(self) -> list[str]:
        """The panels that would show something else than they do."""
        return [name for name, (shows, shown) in self._shown.items() if shows() != shown]
