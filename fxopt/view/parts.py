"""The groups that nodes form besides their modules, so that a picture can fold them as well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from fxopt.view.node_view import PART, NodeView

MOST_CHILDREN, PART_SIZE = 1000, 500
"""A module that holds more nodes directly than the first is cut into parts of the second."""

INDEX_RUN = 8
"""So many steps of index arithmetic in a row fold into one box."""


def with_parts(nodes: Sequence[NodeView]) -> list[NodeView]:
    """Put nodes into parts, which fold like modules, to keep a picture small.

    These are: each call of a module that is called several times in a row (ALBERT runs one layer twelve times); the
    arithmetic on masks and positions, which transformers write out at the top level (18 of the 35 boxes of a folded
    BERT); and stretches of long chains without modules, as 20,000 boxes help nobody.
    """
    return _cut(_index_arithmetic(_calls(nodes)))


def _calls(nodes: Sequence[NodeView]) -> list[NodeView]:
    """Tell the calls of a module apart where its nodes repeat themselves exactly, module calls among them."""
    places: dict[str, list[int]] = {}
    for place, node in enumerate(nodes):
        for path, _ in node.modules:
            places.setdefault(path, []).append(place)
    call_of: dict[tuple[str, int], int] = {}
    for path, of in places.items():
        period = _period([(nodes[place].op, nodes[place].target, nodes[place].called) for place in of])
        if period < len(of) and any(nodes[place].op == "call_module" for place in of[:period]):
            call_of.update({(path, place): number // period for number, place in enumerate(of)})
    return [_in_calls(node, place, call_of) for place, node in enumerate(nodes)]


def _in_calls(node: NodeView, place: int, call_of: dict[tuple[str, int], int]) -> NodeView:
    numbers = [call_of.get((path, place), 0) for path, _ in node.modules]
    if not any(numbers):
        return node
    # The contents of a second call are themselves there for the second time, beside all that they repeat inside it.
    suffixes: list[str] = []
    for number in numbers:
        suffixes.append(f"#{number + 1}" if number else suffixes[-1] if suffixes else "")
    return replace(node, modules=tuple((path + end, name) for (path, name), end in zip(node.modules, suffixes)))


def _period(values: Sequence[object]) -> int:
    """Return the length of the shortest stretch that gives `values` when repeated (Knuth, Morris and Pratt's borders).

    >>> _period("abcabc"), _period("abcab"), _period("aaa")
    (3, 5, 1)
    """
    border = [0] * len(values)
    for place in range(1, len(values)):
        length = border[place - 1]
        while length and values[place] != values[length]:
            length = border[length - 1]
        border[place] = length + (values[place] == values[length])
    period = len(values) - border[-1]
    return period if len(values) % period == 0 else len(values)


def _parent(node: NodeView) -> str:
    return node.modules[-1][0] if node.modules else ""


def _inside(node: NodeView, title: str) -> NodeView:
    path = f"{_parent(node)}.[{title}]".removeprefix(".")
    return replace(node, modules=(*node.modules, (path, PART)))


def _index_arithmetic(nodes: Sequence[NodeView]) -> list[NodeView]:
    result: list[NodeView] = []
    numbers: Counter[str] = Counter()
    for (is_index, parent), group in groupby(nodes, key=lambda node: (_is_index(node), _parent(node))):
        run = list(group)
        if is_index and sum(not node.aside for node in run) >= INDEX_RUN:
            numbers[parent] += 1
            run = [_inside(node, f"index arithmetic {numbers[parent]}") for node in run]
        result.extend(run)
    return result


def _is_index(node: NodeView) -> bool:
    if node.op not in ("call_function", "call_method", "get_attr"):
        return False
    return bool(node.aside) or node.dtype in ("bool", "int64", "int32", "uint8")


def _cut(nodes: Sequence[NodeView]) -> list[NodeView]:
    children = Counter(map(_parent, nodes))
    seen: Counter[str] = Counter()
    result = []
    for node in nodes:
        parent = _parent(node)
        index = seen[parent]
        seen[parent] += 1
        if children[parent] > MOST_CHILDREN and node.op not in ("placeholder", "output"):
            start = index // PART_SIZE * PART_SIZE
            node = _inside(node, f"{start}:{min(start + PART_SIZE, children[parent])}")
        result.append(node)
    return result
