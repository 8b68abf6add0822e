"""Highlights of a picture, by the indices of its boxes. Marks leave the layout as it is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from fxopt.view.visible import VisibleGraph

MarkKind = Literal["matched", "applied", "miss", "created", "changed", "removed", "failed"]
MARK_KINDS: tuple[MarkKind, ...] = get_args(MarkKind)

PALETTE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c8c8c", "#f0e442")
"""Okabe and Ito's colors, which people with any color vision tell apart (https://jfly.uni-koeln.de/color/).
Their black, which is lost on a dark page, is a gray here; the yellow, faint on a light one, comes last."""

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class Mark:
    """One thing to say of a node.

    `pass_index` says whose it is: a place in the list of passes. `site` names the site that it belongs to: a box counts
    the sites of its nodes, or the nodes where no site is given.
    """

    kind: MarkKind
    pass_index: int = 0
    site: str = ""

    def __post_init__(self) -> None:
        if self.kind not in MARK_KINDS:
            raise ValueError(f"no such mark: {self.kind!r}; there are {', '.join(MARK_KINDS)}")


@dataclass(frozen=True)
class PassStyle:
    """A pass keeps its color and its letter everywhere on the page."""

    name: str
    letter: str
    color: str


def styles_of(names: Sequence[str]) -> tuple[PassStyle, ...]:
    """Return a color and a letter for each pass; after the end of the alphabet the letters go on (A2).

    >>> [(style.letter, style.color) for style in styles_of(["MergeLinears", "FuseBiasInLinear"])]
    [('A', '#0072b2'), ('B', '#e69f00')]
    """
    result = []
    for index, name in enumerate(names):
        turn, place = divmod(index, len(_LETTERS))
        letter = _LETTERS[place] + (str(turn + 1) if turn else "")
        result.append(PassStyle(name, letter, PALETTE[index % len(PALETTE)]))
    return tuple(result)


@dataclass(frozen=True)
class ResolvedMarks:
    """Marks by box: for each box those of its nodes, with the number of their sites, or else of nodes.

    `unseen` are the marked nodes outside the picture or its graph.
    """

    boxes: Mapping[int, tuple[tuple[Mark, int], ...]]
    styles: tuple[PassStyle, ...]
    unseen: tuple[str, ...] = ()

    def payload(self) -> dict[str, Any]:
        """Return the marks as ``{"boxes": {index: [[kind, pass, count], ...]}, "styles": [...], "unseen": n}``."""
        return {
            "boxes": {
                str(index): [[mark.kind, mark.pass_index, count] for mark, count in marks]
                for index, marks in self.boxes.items()
            },
            "styles": [[style.name, style.letter, style.color] for style in self.styles],
            "unseen": len(self.unseen),
        }


def resolve(marks: Mapping[str, Sequence[Mark]], graph: VisibleGraph, passes: Sequence[str] = ()) -> ResolvedMarks:
    """Find the box of every mark: that of its node, or of the folded module that hides it.

    `marks` is by node name; `passes` names the passes that `Mark.pass_index` counts through.
    """
    return resolve_sides([(marks, graph)], passes)


def resolve_sides(
    sides: Sequence[tuple[Mapping[str, Sequence[Mark]], VisibleGraph]], passes: Sequence[str] = ()
) -> ResolvedMarks:
    """Find the boxes of marks in two graphs of one picture: each graph leads a name to the box that it has there."""
    found: dict[int, dict[Mark, set[str]]] = {}
    seen: dict[str, bool] = {}
    for marks, graph in sides:
        for name, of_node in marks.items():
            index = graph.find(name)
            if of_node:
                seen[name] = seen.get(name, False) or index is not None
            if index is None:
                continue
            for mark in of_node:
                told = found.setdefault(index, {}).setdefault(Mark(mark.kind, mark.pass_index), set())
                told.add(f"@{mark.site}" if mark.site else name)
    most = max((mark.pass_index for marks, _ in sides for of_node in marks.values() for mark in of_node), default=-1)
    names = [*passes, *(f"pass {index + 1}" for index in range(len(passes), most + 1))]
    boxes = {
        index: tuple((mark, len(of_box[mark])) for mark in sorted(of_box, key=_order))
        for index, of_box in sorted(found.items())
    }
    return ResolvedMarks(boxes, styles_of(names), tuple(name for name, is_seen in seen.items() if not is_seen))


def families(groups: Iterable[Collection[str]], graph: VisibleGraph) -> tuple[tuple[int, ...], ...]:
    """Return the boxes that belong together, if nodes do; a group that is seen in one box alone is dropped."""
    found: dict[tuple[int, ...], None] = {}
    for names in groups:
        boxes = {index for name in names if (index := graph.find(name)) is not None}
        if len(boxes) > 1:
            found[tuple(sorted(boxes))] = None
    return tuple(found)


def _order(mark: Mark) -> tuple[int, int]:
    return mark.pass_index, MARK_KINDS.index(mark.kind)
