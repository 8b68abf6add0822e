"""A tab of the evidence: its name, its drawing, and all that decides its content."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from fxopt.ui.session import Session


def _choices(session: Session) -> Hashable:
    return session.workbench.choices


@dataclass(frozen=True)
class Tab:
    """One question about the change, answered below the graph. Only the open tab is drawn."""

    name: str
    draw: Callable[[Session], None]
    shows: Callable[[Session], Hashable] = _choices
    """Returns all that decides the content, apart from the tab's own widgets; by default the choices of passes.

    The tab is drawn again where this value changes (`fxopt.ui.panel`), and goes stale where something is left out.
    """
