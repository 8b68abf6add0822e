"""The view state: all that a visitor has chosen to see, apart from the choices of passes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Literal

from fxopt.workbench import Choice, Sites
from fxopt.workbench.choosing import names_of
from fxopt.workbench.timeline import Act

Shown = Literal["Original", "Now"]
Together = Literal["Side by side", "Diff"]


@dataclass(frozen=True)
class Question:
    """The question whether to turn something off that other sites rest on."""

    pass_name: str
    sites: Sites
    resting: tuple[tuple[str, str], ...]
    """The sites that would go off too: pairs of pass name and site."""
    removes: bool = False
    """Whether it is an edit, to be taken off the workbench, instead of a pass to be turned off."""

    @property
    def name(self) -> str:
        """The name by which an answer tells the question that it is to."""
        sites = None if self.sites is None else sorted(names_of(self.sites))
        asked = repr((self.pass_name, sites, self.resting, self.removes))
        return hashlib.blake2b(asked.encode(), digest_size=8).hexdigest()


@dataclass(frozen=True)
class Compared:
    """Two states of the time line that are compared: the graph of the first takes the place of the original."""

    start: int
    """The number of acts after which the first one is."""
    end: int
    """That of the second one, at which the graph is meanwhile."""
    difference: Act
    """All that differs, as if one act had led from the first to the second."""
    back: int
    """The number of acts after which the graph was before: it goes back there at the end."""

    @property
    def is_one_act(self) -> bool:
        """Whether the two are before and after an act."""
        return self.end == self.start + 1


@dataclass(frozen=True)
class ViewState:
    """One value, which an act replaces: a failed act puts the old one back."""

    looked_at: str = ""
    """The name of the pass in focus, whose sites are shown, or empty."""
    selected: str = ""
    """A node of the graph by name, or a folded module as ``@path``, or empty."""
    shown: Shown = "Now"
    together: Together | None = None
    """The way in which both graphs are shown at once; `shown` is then the one whose nodes were last pointed at."""
    unfolded: frozenset[str] = frozenset()
    """The modules that the visitor has open."""
    revealed: frozenset[str] = frozenset()
    """The modules that are open besides for the node that was gone to last (`fxopt.ui.going`)."""
    closed: tuple[tuple[Choice, ...], frozenset[str]] = ((), frozenset())
    """The modules that the visitor has folded of those that Diff opens by itself, at which choices of passes."""
    gone_to: tuple[int, str, str] = (0, "", "")
    """The node that the graph is to move to: the number of the move, its name, and its place among others in words."""
    gone_at: tuple[Choice, ...] = ()
    """The choices of passes when the visitor went there."""
    pointed_at: tuple[str, tuple[Choice, ...]] = ("", ())
    """The row of the list that the visitor points at, and the choices of passes when they did."""
    compared: Compared | None = None
    """The states of the time line that are compared with each other, for as long as the graph is at the second one."""
    listed: int = 0
    """The number of listed sites of the pass in focus, beyond the first few."""
    copies: frozenset[str] = frozenset()
    """The families of the pass in focus of which each copy is listed, by their places."""
    question: Question | None = None
    """The question to the visitor that is still open."""

    def closed_at(self, choices: tuple[Choice, ...]) -> frozenset[str]:
        """Return the modules that stay folded in Diff at these choices of passes, as the visitor has folded them."""
        return self.closed[1] if self.closed[0] == choices else frozenset()

    def looking_at(self, name: str) -> ViewState:
        """Return the state in which the pass `name`, or with an empty one none, is in focus."""
        return self if name == self.looked_at else replace(self, looked_at=name, listed=0, copies=frozenset())

    def pictured(self, choices: tuple[Choice, ...], looked_at: str) -> ViewState:
        """Return the part that decides the look of the graphs at these choices, with this pass in focus."""
        seen = replace(self, looked_at=looked_at, closed=(choices, self.closed_at(choices)))
        return replace(seen, gone_at=(), pointed_at=("", ()), listed=0, copies=frozenset(), question=None)

    def resumed(self) -> ViewState:
        """Return the state in which the same model goes on in another session: nothing is open to be answered."""
        return replace(self, gone_at=(), pointed_at=("", ()), compared=None, question=None)
