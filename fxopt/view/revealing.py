"""The modules to open so that nodes are seen in boxes of their own."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from fxopt.view.folding import ModuleTree
from fxopt.view.graph_view import GraphView
from fxopt.view.visible import HIDDEN_FIRST

MOST_BOXES = 250
"""A picture is opened by itself up to so many boxes: more are a wall, in which no change is seen."""


def modules_hiding(view: GraphView, name: str) -> frozenset[str]:
    """Return the modules around a node: with all of them open, it has a box of its own.

    There are none for a node that is unknown, stands in no module, or is left out of every picture as a constant or a
    size: with its module open, such a node would have no box at all.

    >>> import torch
    >>> from torch import nn
    >>> view = GraphView.of(torch.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU())))
    >>> modules_hiding(view, "_0"), modules_hiding(view, "nowhere")
    (frozenset(), frozenset())
    """
    node = view.by_name.get(name)
    if node is None or node.aside in HIDDEN_FIRST or node.op in ("placeholder", "output"):
        return frozenset()
    return frozenset(path for path, _ in node.modules)


@dataclass(frozen=True)
class Opening:
    """The modules to open for groups of nodes, and the number of groups that stay folded, as the picture is full."""

    modules: frozenset[str]
    left: int = 0


def opening_for(
    views: Sequence[GraphView], groups: Sequence[Collection[str]], unfolded: Collection[str], most: int = MOST_BOXES
) -> Opening:
    """Return the modules to open besides `unfolded`, so that the nodes of each group are seen in one of the `views`.

    A group that would take the picture beyond `most` boxes stays folded; later ones may still fit.
    """
    trees = [ModuleTree.of(view) for view in views]
    opened = frozenset(unfolded)
    boxes = max((tree.boxes(opened) for tree in trees), default=0)
    left = 0
    for names in groups:
        hiding = frozenset[str]().union(*(modules_hiding(view, name) for view in views for name in names))
        new = hiding - opened
        gain = max((tree.gain(tuple(new)) for tree in trees), default=0)
        if new and boxes + gain > most:
            left += 1
        else:
            opened |= new
            boxes += gain
    return Opening(opened - frozenset(unfolded), left)
