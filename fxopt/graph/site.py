"""Sites of a pass, and its near misses: `Match`, `Miss` with the `Unmet` condition, and `Scan` for both."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from torch.fx import Node

from fxopt.display import Displayed

_FEW = 10

ALL_MET = 1000
"""The number of conditions met if a pass itself has none left: more than any pass has."""


@dataclass(frozen=True, eq=False)  # equality would compare modules and tensors
class Match:
    """A site at which a pass applies. A pass subclasses it to name the captured nodes."""

    anchor: Node
    """The node by which the site is found; its name is the name of the site."""

    only_read: ClassVar[tuple[str, ...]] = ()
    """The fields whose nodes the rewrite reads and leaves as they are."""

    def __init_subclass__(cls) -> None:
        if "__repr__" not in vars(cls):  # else the dataclass would write one that prints all weights
            cls.__repr__ = Match.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(node.name for node in self.nodes)})"

    @property
    def site(self) -> str:
        return self.anchor.name

    @property
    def rewritten(self) -> tuple[Node, ...]:
        """The nodes that the match captured to rewrite them, the anchor first, without those that it only reads."""
        return self._captured(self.only_read)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes that the match captured, the anchor first."""
        return self._captured()

    def _captured(self, without: tuple[str, ...] = ()) -> tuple[Node, ...]:
        """Return the nodes in the fields, but for those that stand in the fields `without` alone."""
        found: dict[Node, None] = {}
        for item in dataclasses.fields(self):
            if item.name in without:
                continue
            value = getattr(self, item.name)
            for one in value if isinstance(value, tuple) else (value,):
                if isinstance(one, Node):
                    found[one] = None
        return tuple(found)


NEEDS_SHAPES = "capture the model with example inputs (fxopt.capture), or give a graph its shapes (fxopt.annotate)"
"""The remedy where a condition could not be proven, because a shape or a type is unknown."""


@dataclass(frozen=True)
class Unmet:
    """An unmet condition: the fact with the node's name and actual values, and the remedy."""

    reason: str
    remedy: str = ""
    """The remedy for the user, if any."""
    actual: str = ""
    """The value found at the site, in a few words."""
    needed: str = ""
    """The value needed."""

    @property
    def needs_shapes(self) -> bool:
        """Whether it may hold, and known shapes and types would tell."""
        return self.remedy.startswith(NEEDS_SHAPES)


class Refusal:
    """Base of all that has an unmet condition, whose parts are read as its own."""

    unmet: Unmet

    @property
    def reason(self) -> str:
        return self.unmet.reason

    @property
    def remedy(self) -> str:
        return self.unmet.remedy

    @property
    def actual(self) -> str:
        return self.unmet.actual

    @property
    def needed(self) -> str:
        return self.unmet.needed


@dataclass(frozen=True, eq=False)
class Miss(Refusal):
    """A site that a pass looked at and left alone."""

    anchor: Node
    unmet: Unmet
    """The first unmet condition there."""
    met: int = 0
    """The number of conditions met before this one: the higher, the nearer the miss."""

    @property
    def site(self) -> str:
        return self.anchor.name

    def __str__(self) -> str:
        return f"{self.anchor.name}: {self.reason}" + (f" ({self.remedy})" if self.remedy else "")


M = TypeVar("M", bound=Match)


class Explains(Protocol):
    """The part of a pass that a scan tells of it."""

    @property
    def name(self) -> str: ...

    def explain(self, match: Any) -> str: ...


@dataclass(frozen=True, eq=False)
class Scan(Displayed, Generic[M]):
    """The matches and misses of a pass in a graph, in the order of the graph."""

    matches: tuple[M, ...] = ()
    misses: tuple[Miss, ...] = field(default=())
    pass_: Explains | None = field(default=None, repr=False)

    @property
    def near_misses(self) -> tuple[Miss, ...]:
        """The misses, the nearest first: those with the most conditions met before the first unmet one."""
        return tuple(sorted(self.misses, key=lambda miss: -miss.met))

    def __str__(self) -> str:
        return self._told(len(self.matches) + len(self.misses))

    def __repr__(self) -> str:
        return self._told(_FEW)

    def _told(self, most: int) -> str:
        """Return the counts, and of matches and misses a line each, at most so many."""
        counts = (len(self.matches), "match", "matches"), (len(self.misses), "near miss", "near misses")
        told = ", ".join(f"{count} {one if count == 1 else many}" for count, one, many in counts)
        lines = [*map(self._line, self.matches[:most])]
        lines += [f"  miss  {miss}" for miss in self.misses[: most - len(lines)]]
        more = len(self.matches) + len(self.misses) - len(lines)
        rest = [f"  and {more} more; print(scan) lists all"] if more else []
        return "\n".join([told if self.pass_ is None else f"{self.pass_.name}: {told}", *lines, *rest])

    def _line(self, match: M) -> str:
        if self.pass_ is None or any(node._erased for node in match.nodes):
            return f"  match {match.site}"
        return f"  match {match.site}: {self.pass_.explain(match)}"
