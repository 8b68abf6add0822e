"""Folding: the modules that are open in a first picture."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection

from fxopt.view.graph_view import GraphView
from fxopt.view.node_view import NodeView
from fxopt.view.visible import HIDDEN_FIRST

FLAT = 300
"""Up to so many nodes, a graph is shown with every module open."""

ENOUGH, MANY = 12, 60
"""A folded picture is opened until it has ENOUGH boxes, and if possible at most MANY."""


def default_unfolded(view: GraphView, flat: int = FLAT) -> frozenset[str]:
    """Open all modules of a small graph; of a large one, those that give about 12 to 60 boxes: its blocks.

    Siblings of one class (the layers of an encoder) are opened all together, the largest first.
    """
    shown = [node for node in view.nodes if node.aside not in HIDDEN_FIRST]
    if len(shown) <= flat:
        return frozenset(view.module_classes)
    tree = ModuleTree(shown)
    opened: set[str] = set()
    boxes, front = len(tree.children[""]), tree.siblings("")
    while front:
        # Twelve boxes of a few hundred say more than three, so a nearly bare picture may grow further.
        limit = MANY if boxes > 8 else flat
        fitting = [family for family in front if boxes + tree.gain(family) <= limit]
        if boxes >= ENOUGH:
            # One box that holds a quarter of the model hides its structure.
            fitting = [family for family in fitting if tree.weight(family) / len(family) > len(shown) / 4]
        if not fitting:
            break
        family = max(fitting, key=tree.weight)
        boxes += tree.gain(family)
        opened.update(family)
        front.remove(family)
        for path in family:
            front.extend(tree.siblings(path))
    return frozenset(opened)


class ModuleTree:
    """The modules of a graph with their direct contents: nodes by name, modules as ``@path``."""

    @classmethod
    def of(cls, view: GraphView) -> ModuleTree:
        """Return the tree of the nodes that a first picture shows."""
        return cls([node for node in view.nodes if node.aside not in HIDDEN_FIRST])

    def __init__(self, nodes: list[NodeView]) -> None:
        self.children: dict[str, dict[str, None]] = defaultdict(dict)
        self._nodes_in: Counter[str] = Counter()
        self._class: dict[str, str] = {}
        for node in nodes:
            # Inputs and outputs are never folded.
            stack = () if node.op in ("placeholder", "output") else node.modules
            parent = ""
            for path, name in stack:
                self.children[parent][f"@{path}"] = None
                self._nodes_in[path] += 1
                self._class[path] = name
                parent = path
            self.children[parent][node.name] = None

    def siblings(self, parent: str) -> list[tuple[str, ...]]:
        """Return the modules directly in `parent`, those of one class together."""
        families: dict[str, list[str]] = defaultdict(list)
        for child in self.children[parent]:
            if child.startswith("@"):
                path = child[1:]
                families[self._class[path] or path].append(path)
        return [tuple(family) for family in families.values()]

    def gain(self, family: tuple[str, ...]) -> int:
        """Return the number of boxes that opening `family` adds; modules of other graphs add none."""
        return sum(len(self.children[path]) - 1 for path in family if path in self.children)

    def boxes(self, unfolded: Collection[str]) -> int:
        """Return the number of boxes with these modules open."""
        count, front = 0, [""]
        while front:
            inside = self.children.get(front.pop(), {})
            opened = [child[1:] for child in inside if child.startswith("@") and child[1:] in unfolded]
            count += len(inside) - len(opened)
            front.extend(opened)
        return count

    def weight(self, family: tuple[str, ...]) -> int:
        return sum(self._nodes_in[path] for path in family)
