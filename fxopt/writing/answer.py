"""The answer to a text of rules, as plain data that goes from one process to another as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

MOST_PLACES = 500
"""Sites, and near misses, that an answer lists of a rule."""


@dataclass(frozen=True)
class Site:
    """A node at which a rule applies."""

    node: str
    explanation: str


@dataclass(frozen=True)
class NearMiss:
    """A node at which a rule nearly applies."""

    node: str
    reason: str
    remedy: str = ""


@dataclass(frozen=True)
class Found:
    """The sites and near misses of a rule or pass of the text, in the graph."""

    name: str
    summary: str
    sites: tuple[Site, ...] = ()
    misses: tuple[NearMiss, ...] = ()
    more: int = 0
    """The number of sites and near misses beyond those that are listed."""
    checked: str = ""
    """The result of `fxopt.testing.check_pass` where it was asked for and all laws hold."""


@dataclass(frozen=True)
class Fault:
    """The fault of a text, in a sentence for its author."""

    text: str
    line: int = 0
    """Counted from 1; 0 where it is in no line."""
    code: str = ""
    """The line itself."""
    breaks_law: bool = False
    """The mark of a text that can be run, and whose rule breaks a law of passes."""

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}" if self.line else self.text


@dataclass(frozen=True)
class Answer:
    """The answer to a text: findings of its rules, and faults."""

    found: tuple[Found, ...] = ()
    faults: tuple[Fault, ...] = ()

    def to_plain(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_plain(cls, plain: dict[str, Any]) -> Answer:
        """Return the answer of its plain data.

        >>> one = Answer((Found("f", "", (Site("mul", "why"),), (NearMiss("mul_1", "no"),)),), (Fault("wrong", 3),))
        >>> Answer.of_plain(one.to_plain()) == one
        True
        """
        found = tuple(
            Found(
                **{
                    **one,
                    "sites": tuple(Site(**site) for site in one["sites"]),
                    "misses": tuple(NearMiss(**miss) for miss in one["misses"]),
                }
            )
            for one in plain["found"]
        )
        return cls(found, tuple(Fault(**one) for one in plain["faults"]))
