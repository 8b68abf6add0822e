"""Free sizes as numbers and back: the check of an edit runs at the example's sizes and at larger ones."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch.fx import GraphModule, Node

from fxopt.core import TensorInfo
from fxopt.tracing import CaptureReport

UNKNOWN = 3
"""The number that stands for a size which the example leaves open."""

_OPERATORS: Mapping[type[ast.AST], Callable[..., int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
}


@dataclass(frozen=True)
class Assignment:
    """A number for each free size, by its name."""

    numbers: Mapping[str, int]

    @classmethod
    def of(cls, gm: GraphModule) -> Assignment:
        """Return the sizes of the example that `gm` was captured with."""
        report = gm.meta.get("fxopt")
        known = report.example if isinstance(report, CaptureReport) else {}
        names = sorted({name for size in _free_sizes(gm) for name in re.findall(r"[A-Za-z_]\w*", size)})
        return cls({name: known.get(name, UNKNOWN + i) for i, name in enumerate(names)})

    @property
    def larger(self) -> Assignment:
        """Larger sizes, each by another amount, so that a result shows the sizes that it depends on."""
        return Assignment({name: size + 2 + 3 * i for i, (name, size) in enumerate(self.numbers.items())})

    def size(self, size: int | str) -> int:
        """Return the number of a size.

        >>> Assignment({"batch": 4, "sequence": 7}).size("12*batch + (sequence - 1)//2")
        51

        Raises:
            ValueError: it is not written in arithmetic of known sizes.
        """
        number = self.computed(size)
        if number is None:
            raise ValueError(f"the size {size} cannot be computed from the known sizes ({self})")
        return number

    def computed(self, size: int | str) -> int | None:
        """Return the number of a size, or None where it is not written in arithmetic of known sizes."""
        if isinstance(size, int):
            return size
        try:
            return self._value(ast.parse(size, mode="eval").body)
        except (SyntaxError, KeyError, ArithmeticError):
            return None

    def shape(self, info: TensorInfo) -> tuple[int, ...]:
        return tuple(map(self.size, info.shape))

    def __str__(self) -> str:
        return ", ".join(f"{name} {size}" for name, size in self.numbers.items())

    def _value(self, tree: ast.AST) -> int:
        if isinstance(tree, ast.Constant) and isinstance(tree.value, int):
            return tree.value
        if isinstance(tree, ast.Name):
            return self.numbers[tree.id]
        if isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATORS:
            return _OPERATORS[type(tree.op)](self._value(tree.left), self._value(tree.right))
        if isinstance(tree, ast.UnaryOp) and type(tree.op) in _OPERATORS:
            return _OPERATORS[type(tree.op)](self._value(tree.operand))
        raise KeyError(ast.unparse(tree))


@dataclass(frozen=True, eq=False)
class Names:
    """Finds the name of a size from the numbers that it has at two assignments."""

    first: Assignment
    second: Assignment
    known: Mapping[tuple[int, int], str]

    @classmethod
    def of(cls, gm: GraphModule, first: Assignment, second: Assignment) -> Names:
        known: dict[tuple[int, int], str] = {}
        for size in sorted(_free_sizes(gm), key=lambda text: (len(text), text)):
            one, other = first.computed(size), second.computed(size)
            if one is not None and other is not None:
                known.setdefault((one, other), size)
        return cls(first, second, known)

    def info(self, node: Node, one: Any, other: Any) -> Any:
        """Return the metadata of a result, from its metadata at both assignments."""
        if isinstance(one, TensorInfo) and isinstance(other, TensorInfo) and len(one.shape) == len(other.shape):
            sizes = zip(map(int, one.shape), map(int, other.shape))
            return replace(one, shape=tuple(self._name(node, i, a, b) for i, (a, b) in enumerate(sizes)))
        if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
            return tuple(self.info(node, a, b) for a, b in zip(one, other))
        if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
            return {key: self.info(node, one[key], other[key]) for key in one}
        return one

    def _name(self, node: Node, dimension: int, a: int, b: int) -> int | str:
        """Return an int where the size is the same at both, else its name, or a multiple of a free size and more.

        >>> names = Names(Assignment({"batch": 4, "n": 7}), Assignment({"batch": 6, "n": 12}), {})
        >>> names._name(None, 0, 12, 18), names._name(None, 0, 6, 11), names._name(None, 0, 28, 72)
        ('3*batch', 'n - 1', 'size_of_None_0')
        """
        if a == b:
            return a
        if (a, b) in self.known:
            return self.known[a, b]
        found = []
        for name, size in self.first.numbers.items():
            times, left = divmod(b - a, self.second.numbers[name] - size)
            if left == 0 and times > 0:
                found.append((abs(a - times * size), times, name, a - times * size))
        if not found or 2 * min(found)[0] > a:
            return f"size_of_{node and node.name}_{dimension}"
        _, times, name, more = min(found)
        text = name if times == 1 else f"{times}*{name}"
        return f"{text} {'+' if more > 0 else '-'} {abs(more)}" if more else text


def _free_sizes(gm: GraphModule) -> set[str]:
    found: set[str] = set()
    for node in gm.graph.nodes:
        _collect(node.meta.get("tensor_info"), found)
    return found


def _collect(info: Any, found: set[str]) -> None:
    if isinstance(info, TensorInfo):
        found.update(size for size in info.shape if isinstance(size, str))
    elif isinstance(info, tuple | list | dict):
        for part in info.values() if isinstance(info, dict) else info:
            _collect(part, found)
