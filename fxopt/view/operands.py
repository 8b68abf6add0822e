"""The operands that come along each edge: `a - b` and `b - a` have the same edges, as have `y * y` and `-y`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from torch.fx import Node
from torch.fx.node import map_arg

from fxopt.graph.nodes import operation_name
from fxopt.graph.operator_table import COMMUTATIVE

MOST_TOLD = 3
"""So many numbers of operands stand beside one edge; of more, the first and the last."""


@dataclass(frozen=True)
class Operands:
    """The names of the nodes that `node` reads, one for each place, and empty for a number that stands in one of two.

    `ordered` says that their places are fixed.
    """

    node: str
    names: tuple[str, ...]
    ordered: bool

    @classmethod
    def of(cls, node: Node) -> Operands | None:
        """Return the operands of a node that has two places or more."""
        names: list[str] = []
        map_arg((node.args, node.kwargs), lambda other: names.append(other.name))
        args = node.args
        alone = (
            len(args) == 2 and not node.kwargs and all(isinstance(arg, Node | int | float | complex) for arg in args)
        )
        if alone and node.op in ("call_function", "call_method"):
            names = [arg.name if isinstance(arg, Node) else "" for arg in args]
        if len(names) < 2:
            return None
        return cls(node.name, tuple(names), not (alone and operation_name(node) in COMMUTATIVE))

    def along(self, box_of: Callable[[str], Any]) -> Iterable[tuple[Any, str]]:
        """Yield each box that some are read from, with the text beside its edge; `box_of` skips hidden nodes."""
        boxes = [box_of(name) if name else None for name in self.names]
        shown = [box for box in boxes if box is not None]
        for box in dict.fromkeys(shown):
            places = [place for place, other in enumerate(boxes, 1) if other == box]
            one = len({self.names[place - 1] for place in places}) == 1
            if one and len(places) > 1 and (not self.ordered or len(places) == len(self.names)):
                yield box, f"×{len(places)}"
            elif self.ordered and (len(shown) > 1 or (len(self.names) == 2 and places == [2])):
                yield box, _listed(places)


def _listed(places: list[int]) -> str:
    """Return the numbers of operands as text beside an edge.

    >>> _listed([2]), _listed([1, 3]), _listed([1, 2, 3, 4]), _listed([1, 3, 5, 7])
    ('2', '1, 3', '1–4', '1 … 7')
    """
    if len(places) <= MOST_TOLD:
        return ", ".join(map(str, places))
    dash = "–" if places[-1] - places[0] == len(places) - 1 else " … "
    return f"{places[0]}{dash}{places[-1]}"
