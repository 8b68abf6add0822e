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

    def note(self, name: str, shows: Callable[[], Hashable]) -> None:
        """Record that a panel is being drawn, and the state that `shows` gives for it now."""
        self.awaited.discard(name)
        self._shown[name] = (shows, shows())

    def forget(self, name: str) -> None:
        """Forget a panel that is on the page no longer."""
        self._shown.pop(name, None)
        self.views.pop(name, None)

    @property
    def stale(self) -> list[str]:
        """The panels whose state has changed since they were drawn."""
        return [name for name, (shows, shown) in self._shown.items() if _state(shows) != shown]


def _state(shows: Callable[[], Hashable]) -> Hashable:
    """Return the state of a panel; where that fails, one that equals none: it is drawn, and tells why."""
    try:
        return shows()
    except Exception:  # noqa: BLE001 - the panel fails in the same way when it is drawn, and is a message in its place
        return object()
