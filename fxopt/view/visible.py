"""The boxes of a picture: nodes, and modules folded into one box each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from heapq import heapify, heappop, heappush

from fxopt.view.graph_view import GraphView
from fxopt.view.node_view import PART, NodeView

HIDDEN_FIRST = frozenset({"constant", "size"})
"""The kinds that a first picture leaves out, with a count. Constants are read by the operation beside them, and size
arithmetic carries no tensor. Inputs and the output stay, although they compute nothing: the reader starts there, and
the data goes there."""

_ASIDE_WORDS = {"constant": ("constant", "constants"), "size": ("size computation", "size computations")}


@dataclass(frozen=True)
class Item:
    """One box: a node, or a folded module (then `path` is its path, and `members` the nodes in it)."""

    name: str
    kind: str
    title: str
    subtitle: str
    modules: tuple[tuple[str, str], ...]
    path: str = ""
    members: tuple[str, ...] = ()


@dataclass(frozen=True)
class VisibleGraph:
    """The boxes in an order that follows the data, and the edges between them as pairs of indices.

    `owner` gives the box in which a node is seen; a node that is left out altogether is missing there. `reads` has the
    text beside an edge: the operands of its target that come along it, if that matters.
    """

    items: tuple[Item, ...]
    edges: tuple[tuple[int, int], ...]
    owner: Mapping[str, int] = field(compare=False)
    total: int
    hidden: Mapping[str, int] = field(compare=False)
    reads: tuple[tuple[int, int, str], ...] = ()

    def __repr__(self) -> str:
        return f"VisibleGraph({len(self.items)} boxes, {len(self.edges)} edges)"

    @cached_property
    def digest(self) -> str:
        """The same for the same boxes and edges, in every process: a key to cache layouts by."""
        return blake2b(repr((self.items, self.edges, self.total, self.reads)).encode(), digest_size=12).hexdigest()

    @cached_property
    def caption(self) -> str:
        """The caption with the counts of shown and hidden nodes: every picture names its omissions."""
        groups = [item for item in self.items if item.path]
        folded = sum(len(item.members) for item in groups)
        parts = [f"showing {len(self.items) - len(groups):,} of {self.total:,} nodes"]
        if groups:
            parts.append(f"{folded:,} folded into {len(groups):,} module{'s' if len(groups) > 1 else ''}")
        for aside, count in sorted(self.hidden.items()):
            if count:
                one, many = _ASIDE_WORDS.get(aside, (aside, aside))
                parts.append(f"{count:,} {one if count == 1 else many} hidden")
        return ", ".join(parts)

    def find(self, name: str) -> int | None:
        """Return the box in which the node `name`, or the folded module ``@path``, is seen."""
        return self.owner.get(name)


def visible(view: GraphView, unfolded: Collection[str] = (), hide: Collection[str] = HIDDEN_FIRST) -> VisibleGraph:
    """Return the picture of `view` in which the modules in `unfolded` are open and the others are one box each.

    A module that is called several times with other operations in between gets one box a call if one box alone would
    make the data run in a circle.
    """
    groups = _Groups(view, frozenset(unfolded))
    boxes, hidden = _assign(view, groups, hide)
    edges = _edges(view, boxes)
    order, circling = _follow_data(len(boxes.names), edges)
    while circling and groups.split(boxes.names[index] for index in circling):
        boxes, hidden = _assign(view, groups, hide)
        edges = _edges(view, boxes)
        order, circling = _follow_data(len(boxes.names), edges)

    rank = {index: place for place, index in enumerate(order)}
    items = [_item(view, boxes, index) for index in order]
    owner = {name: rank[index] for name, index in boxes.owner.items()}
    owner |= {item.name: place for place, item in enumerate(items)}
    moved = sorted((rank[source], rank[target]) for source, target in edges)
    reads = sorted((rank[source], rank[target], text) for source, target, text in _reads(view, boxes))
    return VisibleGraph(tuple(items), tuple(moved), owner, len(view.nodes), dict(hidden), tuple(reads))


class _Groups:
    """Into which folded module each node goes, if into any; and which calls of a module are kept apart."""

    def __init__(self, view: GraphView, unfolded: frozenset[str]) -> None:
        self.stacks: list[tuple[tuple[str, str], ...]] = []
        self.paths: list[str | None] = []
        self._runs: list[int] = []
        self._split: set[str] = set()
        runs: Counter[str] = Counter()
        before: str | None = None
        for node in view.nodes:
            depth = next((i for i, (path, _) in enumerate(node.modules) if path not in unfolded), None)
            if node.op in ("placeholder", "output"):
                depth = None
            path = None if depth is None else node.modules[depth][0]
            if path is not None and path != before:
                runs[path] += 1
            before = path
            self.paths.append(path)
            self.stacks.append(node.modules[:depth])
            self._runs.append(0 if path is None else runs[path])
        self._interrupted = {path for path, count in runs.items() if count > 1}

    def name(self, index: int) -> str | None:
        path = self.paths[index]
        if path is None:
            return None
        run = self._runs[index]
        return f"@{path}~{run}" if path in self._split and run > 1 else f"@{path}"

    def split(self, names: Iterable[str]) -> bool:
        """Give each run of the groups in `names` a box of its own; return False once all are split.

        Runs are intervals of the program order, and intervals of an order that the data follows cannot
        form a circle: the splitting ends.
        """
        found = {name[1:] for name in names if name.startswith("@")} & self._interrupted - self._split
        self._split |= found
        return bool(found)


@dataclass
class _Boxes:
    names: list[str]
    members: list[list[NodeView]]
    stacks: list[tuple[tuple[str, str], ...]]
    paths: list[str]
    owner: dict[str, int]


def _assign(view: GraphView, groups: _Groups, hide: Collection[str]) -> tuple[_Boxes, Counter[str]]:
    boxes = _Boxes([], [], [], [], {})
    known: dict[str, int] = {}
    hidden: Counter[str] = Counter()
    left_out = []
    for place, node in enumerate(view.nodes):
        if node.aside in hide:
            hidden[node.aside] += 1
            left_out.append(place)
            continue
        name = groups.name(place) or node.name
        index = known.get(name)
        if index is None:
            index = known[name] = len(boxes.names)
            boxes.names.append(name)
            boxes.members.append([])
            boxes.stacks.append(groups.stacks[place])
            boxes.paths.append(groups.paths[place] or "")
        boxes.members[index].append(node)
        boxes.owner[node.name] = index
    for place in left_out:
        # Marks on a constant of a folded module show on that module.
        index = known.get(groups.name(place) or "")
        if index is not None:
            boxes.owner[view.nodes[place].name] = index
    return boxes, hidden


def _edges(view: GraphView, boxes: _Boxes) -> dict[tuple[int, int], None]:
    shown = {node.name for members in boxes.members for node in members}
    pairs = ((boxes.owner[a], boxes.owner[b]) for a, b in view.edges if a in shown and b in shown)
    return {pair: None for pair in pairs if pair[0] != pair[1]}


def _reads(view: GraphView, boxes: _Boxes) -> Iterator[tuple[int, int, str]]:
    """Yield the operands that come along each edge into a node that has a box of its own."""
    box_of = {node.name: index for index, members in enumerate(boxes.members) for node in members}
    for operands in view.operands:
        target = box_of.get(operands.node)
        if target is not None and not boxes.paths[target]:
            yield from ((source, target, text) for source, text in operands.along(box_of.get))


def _follow_data(count: int, edges: Collection[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Return all indices so that every edge leads forward, as close to their own order as that allows.

    Return as well those that lie on a circle or between two; these come last, in their own order.
    """
    order = _peel(range(count), edges)
    placed = set(order)
    rest = [index for index in range(count) if index not in placed]
    backward = [(b, a) for a, b in edges if a not in placed and b not in placed] if rest else []
    behind = set(_peel(rest, backward))
    return order + rest, [index for index in rest if index not in behind]


def _peel(indices: Collection[int], edges: Iterable[tuple[int, int]]) -> list[int]:
    """Return those of `indices` that can be taken one by one, each after all that lead to it; smallest first."""
    users: dict[int, list[int]] = {index: [] for index in indices}
    waits = dict.fromkeys(indices, 0)
    for source, target in edges:
        users[source].append(target)
        waits[target] += 1
    ready = [index for index in indices if not waits[index]]
    heapify(ready)
    order = []
    while ready:
        index = heappop(ready)
        order.append(index)
        for user in users[index]:
            waits[user] -= 1
            if not waits[user]:
                heappush(ready, user)
    return order


def _item(view: GraphView, boxes: _Boxes, index: int) -> Item:
    members, stack, path = boxes.members[index], boxes.stacks[index], boxes.paths[index]
    if not path:
        return node_item(members[0], stack)
    kind = members[0].modules[len(stack)][1]
    words = f"{len(members):,} node{'s' if len(members) > 1 else ''}"
    if view.alike[path] > 1:
        words += f" · ×{view.alike[path]}"
    title = module_title(path, kind)
    return Item(boxes.names[index], "group", title, words, stack, path, tuple(node.name for node in members))


def node_item(node: NodeView, stack: tuple[tuple[str, str], ...]) -> Item:
    """Return the box of one node: its name above, its kind and result below."""
    if node.op == "placeholder":
        title, what = node.name, "input"
    elif node.op == "output":
        title, what = "output", ""
    elif node.op == "call_module":
        title, what = short_path(node.target), node.called
    elif node.op == "get_attr":
        title, what = short_path(node.target), "constant"
    else:
        title, what = _call_title(node), ""
    return Item(node.name, node.kind, title or node.name, " · ".join(filter(None, (what, node.shape))), stack)


def _call_title(node: NodeView) -> str:
    # Overloads of aten are known by their full name; of other functions the last word says it.
    if node.op == "call_method" or node.target.startswith("aten."):
        return node.target
    return node.target.rpartition(".")[2]


def module_title(path: str, kind: str) -> str:
    """Return the title of the box or frame of a module.

    >>> module_title("encoder.layer.0", "BertLayer"), module_title("[index arithmetic 1]", PART)
    ('layer.0 · BertLayer', 'index arithmetic')
    >>> module_title("layer#2", "Layer")
    'layer #2 · Layer'
    """
    if kind == PART:
        return path.rpartition("[")[2].rstrip("]").removesuffix(" 1")
    path, call, number = path.partition("#")
    return " · ".join(filter(None, (short_path(path) + (f" #{number}" if call else ""), kind)))


def short_path(path: str) -> str:
    """Return the end of a dotted path that is still telling: a bare number keeps the name before it.

    >>> short_path("encoder.layer.0"), short_path("encoder.layer.0.dense")
    ('layer.0', 'dense')
    """
    parts = path.split(".")
    if len(parts) > 1 and parts[-1].isdigit():
        return ".".join(parts[-2:])
    return parts[-1]
