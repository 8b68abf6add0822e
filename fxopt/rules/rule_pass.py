"""The part that a rule and a set of rules have in common as passes."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace

from torch.fx import Node

from fxopt.core.entry import Entry
from fxopt.core.pass_base import Pass
from fxopt.graph.index import GraphIndex
from fxopt.graph.site import Match, Miss, Scan, Unmet
from fxopt.process.module_calls import TRACING, patched
from fxopt.rules.matching import Binding


@dataclass(frozen=True, eq=False)
class RuleMatch(Match):
    """A site of a rule."""

    rule: RulePass
    captured: tuple[Node, ...]
    """The nodes of the pattern."""
    members: tuple[Binding, ...]
    """The bindings: one, or one for each of the siblings."""

    @property
    def roots(self) -> tuple[Node, ...]:
        """The nodes that are replaced, one for each member."""
        return tuple(next(iter(member.nodes.values())) for member in self.members)


class RulePass(Pass[RuleMatch]):
    """A pass whose sites are patterns of rules, which may overlap."""

    def results(self, match: RuleMatch) -> tuple[Node, ...]:
        return match.roots

    def _scan(self, index: GraphIndex) -> Scan[RuleMatch]:
        """Find where a rule applies and where it nearly does. Of overlapping matches the first counts.

        The others are misses that say so.
        """
        with TRACING, patched():
            found = super()._scan(index)
        roots: set[Node] = set()
        matches: list[RuleMatch] = []
        misses = list(found.misses)
        for match in found.matches:
            other = next((node for node in match.captured if node in roots), None)
            if other is None:
                matches.append(match)
                roots.update(match.roots)
            else:
                misses.append(_overlap(match.anchor, other))
        return replace(found, matches=tuple(matches), misses=tuple(sorted(misses, key=lambda miss: miss.anchor)))

    def _apply(self, index: GraphIndex, sites: Container[str] | None) -> tuple[Entry, ...]:
        with TRACING, patched():
            return super()._apply(index, sites)


def _overlap(node: Node, other: Node) -> Miss:
    unmet = Unmet(
        f"it overlaps the site {other.name}, which comes first",
        f"turn it on without {other.name}, or look again when that is rewritten",
        actual=f"overlaps {other.name}",
        needed="no overlap",
    )
    return Miss(node, unmet)
