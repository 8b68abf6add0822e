"""Record of the panels of a visitor's page: the state that each shows, and which are out of date."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from fxopt.ui.view_state import ViewState


class Drawn:
    """The panels, in the order in which they were drawn first."""

    def __init__(self) -> None:
        self.everything = False
        """Whether every panel is being drawn, or only some."""
        self.awaited: set[str] = set()
        """The panels that the last requested run has yet to draw."""
        self.views: dict[str, ViewState] = {}
        """By panel, the view state when it was last drawn without a fault."""
        self._shown: dict[str, tuple[Callable[[], Hashable], Hashable]] = {}
        self._in_run: set[str] = set()
        """The panels that were drawn by runs of which the end is not known yet."""
        self._broken_off: set[str] = set()
        """The panels of runs that another act ended: below them the browser still has what stood there before."""

    def note(self, name: str, shows: Callable[[], Hashable]) -> None:
        """Record that a panel is being drawn, and the state that `shows` gives for it now."""
        self.awaited.discard(name)
        self._in_run.add(name)
        self._broken_off.discard(name)
        self._shown[name] = (shows, shows())

    def forget(self, name: str) -> None:
        """Forget a panel that is on the page no longer."""
        self._shown.pop(name, None)
        self.views.pop(name, None)
        self._broken_off.discard(name)

    def run_broke_off(self) -> None:
        """Record that the run has no end: at an end alone the browser clears the rest of panels that became shorter."""
        self._broken_off |= self._in_run
        self._in_run.clear()

    def run_ended(self, drew_all: bool) -> None:
        """Record that a run has come to its end, in which every panel was drawn or only some."""
        self._in_run.clear()
        if drew_all:
            self._broken_off &= self.awaited  # the others are on the page no longer

    @property
    def stale(self) -> list[str]:
        """The panels whose state has changed since they were drawn, or whose run broke off."""
        return self.due()

    def due(self, *others: str) -> list[str]:
        """Return those that are stale and, as far as they were drawn, some others."""
        return [
            name
            for name, (shows, shown) in self._shown.items()
            if name in others or name in self._broken_off or _state(shows) != shown
        ]


def _state(shows: Callable[[], Hashable]) -> Hashable:
    """Return the state of a panel; where that fails, one that equals none: it is drawn, and tells why."""
    try:
        return shows()
    except Exception:  # noqa: BLE001 - the panel fails in the same way when it is drawn, and is a message in its place
        return object()
