"""Steps of a rewrite, site by site, as boxes of a picture of two graphs: for a player."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fxopt.view.visible import VisibleGraph


@dataclass(frozen=True)
class Step:
    """One site, or those in one folded module together: words, and the boxes that differ by it."""

    told: str
    boxes: tuple[int, ...]


def steps_of(sites: Iterable[tuple[str, Sequence[str]]], before: VisibleGraph, after: VisibleGraph) -> tuple[Step, ...]:
    """Return a step for each site that has a box of its own, then one for each folded module with sites in it.

    A folded module changes as a whole, so that its sites are one step. It stays folded: Diff opens one of the copies of
    a block, and the picture keeps its place while the rewrite is played.

    Args:
        sites: words, and the names of the nodes that the site made, changed or removed, in the order of the rewrite.
        before, after: one picture of both graphs, in which a name leads to the box that it has in the one or the other.
    """
    steps: list[Step] = []
    folded: dict[tuple[int, ...], list[str]] = {}
    for told, names in sites:
        found = dict.fromkeys(box for of in (before, after) for name in names if (box := of.find(name)) is not None)
        own = tuple(box for box in found if not after.items[box].path)
        if own:
            steps.append(Step(told, own))
        elif found:
            folded.setdefault(tuple(sorted(found)), []).append(told)
    for boxes, words in folded.items():
        paths = list(dict.fromkeys(after.items[box].path.partition("#")[0] for box in boxes))
        place = f"the folded module{'s' if len(paths) > 1 else ''} {', '.join(paths)}"
        steps.append(Step(f"{words[0] if len(words) == 1 else f'{len(words):,} sites'}, in {place}", boxes))
    return tuple(steps)
