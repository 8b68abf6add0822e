"""Sites of a pass, and its near misses: `Match`, `Miss` with the `Unmet` condition, and `Scan` for both."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

from torch.fx import Node

ALL_MET = 1000
"""The number of conditions met if a pass itself has none left: more than any pass has."""


@dataclass(frozen=True, eq=False)  # equality would compare modules and tensors
class Match:
    """A site at which a pass applies. A pass subclasses it to name the captured nodes."""

    anchor: Node
    """The node by which the site is found; its name is the name of the site."""

    only_read: ClassVar[tuple[str, ...]] = ()
    """The fields whose nodes the rewrite reads and leaves as they are."""

    @property
    def site(self) -> str:
        return self.anchor.name

    @property
    def rewritten(self) -> tuple[Node, ...]:
        """The nodes that the match captured to rewrite them, the anchor first."""
        inputs = {getattr(self, name) for name in self.only_read}
        return tuple(node for node in self.nodes if node is self.anchor or node not in inputs)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes that the match captured, the anchor first."""
        found: dict[Node, None] = {}
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            for one in value if isinstance(value, tuple) else (value,):
                if isinstance(one, Node):
                    found[one] = None
        return tuple(found)


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


@dataclass(frozen=True, eq=False)
class Scan(Generic[M]):
    """The matches and misses of a pass in a graph, in the order of the graph."""

    matches: tuple[M, ...] = ()
    misses: tuple[Miss, ...] = field(default=())

    @property
    def near_misses(self) -> tuple[Miss, ...]:
        """The misses, the nearest first: those with the most conditions met before the first unmet one."""
        return tuple(sorted(self.misses, key=lambda miss: -miss.met))

    def __str__(self) -> str:
        lines = [f"match {match.site}" for match in self.matches]
        return "\n".join([*lines, *(f"miss  {miss}" for miss in self.misses)])
