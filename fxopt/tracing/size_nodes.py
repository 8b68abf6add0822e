"""Write a symbolic size as graph nodes: ``x.size(0)`` and the arithmetic that Python would have done."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import sympy
import torch
from torch.fx import Graph, Node

from fxopt.tracing.lines import at, calling_line
from fxopt.tracing.report import RecordingError
from fxopt.tracing.sizes import Sizes

# torch's own printer drops ceil and floor, so the functions of its sympy expressions are spelled out
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "FloorDiv": operator.floordiv, "CleanDiv": operator.floordiv, "Mod": operator.mod,
    "PythonMod": operator.mod, "IntTrueDiv": operator.truediv, "FloatTrueDiv": operator.truediv,
    "PowByNatural": operator.pow, "FloatPow": operator.pow, "CeilToInt": math.ceil, "ceiling": math.ceil,
    "FloorToInt": math.floor, "floor": math.floor, "TruncToInt": math.trunc, "RoundToInt": round,
    "RoundDecimal": round, "ToFloat": float, "Abs": abs, "Max": max, "Min": min,
    "Equality": operator.eq, "Unequality": operator.ne, "StrictLessThan": operator.lt,
    "LessThan": operator.le, "StrictGreaterThan": operator.gt, "GreaterThan": operator.ge,
    "Not": operator.not_,
}  # fmt: skip


class SizeNodes:
    """Turns expressions over the symbols of `sizes` into nodes of `graph`, each once."""

    def __init__(self, graph: Graph, sizes: Sizes | None, stamp: Callable[[Node], None]) -> None:
        self.graph, self.sizes, self.stamp = graph, sizes, stamp
        self.known: dict[Any, Any] = {}
        self.last_input: Node | None = None

    def of(self, size: Any) -> Any:
        """Return the node, or the number, for a symbolic size, float or truth value."""
        if isinstance(size, torch.SymBool):
            return bool(size)
        return self._written(size.node.expr)

    def remember(self, size: Any, node: Node) -> None:
        """Record that `node` gives `size`, if that is data beyond the sizes of the inputs."""
        expression = size.node.expr
        if self.sizes is None or expression.is_number:
            return
        if isinstance(expression, sympy.Symbol):
            self.sizes.bind((size,), node, "value")
        elif not expression.free_symbols <= self.sizes.origins.keys():
            self.known[expression] = node

    def input_node(self, function: str, target: Any, args: tuple[Any, ...]) -> Node:
        """Return a new node right after the placeholders, where every later node can read it."""
        assert self.last_input is not None, "an example without a tensor has no sizes"
        with self.graph.inserting_after(self.last_input):
            self.last_input = self.graph.create_node(function, target, args)
        return self.last_input

    def _written(self, expression: Any) -> Any:
        if expression not in self.known:
            self.known[expression] = self._write(expression)
        return self.known[expression]

    def _write(self, e: Any) -> Any:
        if e.is_Symbol:
            return self._symbol(e)
        if e.is_number:
            return int(e) if e.is_integer else float(e)
        if e.is_Add:
            return self._sum(e)
        if e.is_Mul:
            return self._product(e)
        if e.is_Pow:
            return self._power(*e.args)
        name = type(e).__name__
        parts = [self._written(part) for part in e.args]
        if name == "Identity":
            return parts[0]
        if name == "ModularIndexing":
            return self._call(operator.mod, self._call(operator.floordiv, parts[0], parts[1]), parts[2])
        if name in _FUNCTIONS:
            return self._call(_FUNCTIONS[name], *parts)
        if name.startswith("OpaqueUnaryFn_"):
            return self._call(getattr(math, name.removeprefix("OpaqueUnaryFn_")), *parts)
        line = calling_line()
        raise RecordingError(f"the size {e} ({name}) at {at(line)} has no form as graph nodes", line)

    def _sum(self, e: Any) -> Any:
        added = [part for part in e.args if not part.could_extract_minus_sign()]
        taken = [-part for part in e.args if part.could_extract_minus_sign()]
        added.sort(key=lambda part: bool(part.is_number))
        total = self._written(added[0]) if added else 0
        for part in added[1:]:
            total = self._call(operator.add, total, self._written(part))
        for part in taken:
            total = self._call(operator.sub, total, self._written(part))
        return total

    def _product(self, e: Any) -> Any:
        factor, rest = e.as_coeff_mul()
        product = self._written(rest[0])
        for part in rest[1:]:
            product = self._call(operator.mul, product, self._written(part))
        if factor == -1:
            return self._call(operator.neg, product)
        return product if factor == 1 else self._call(operator.mul, product, self._written(factor))

    def _power(self, base: Any, exponent: Any) -> Any:
        if exponent == sympy.S.Half:
            return self._call(math.sqrt, self._written(base))
        if exponent.is_Integer and int(exponent) < 0:
            return self._call(operator.truediv, 1, self._written(base**-exponent))
        return self._call(operator.pow, self._written(base), self._written(exponent))

    def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        if not any(isinstance(arg, Node) for arg in args):
            return function(*args)
        node = self.graph.create_node("call_function", function, args)
        self.stamp(node)
        return node

    def _symbol(self, symbol: Any) -> Node:
        origin = self.sizes.origins.get(symbol) if self.sizes else None
        if self.sizes is None or origin is None:
            line = calling_line()
            raise RecordingError(f"the size {symbol} used at {at(line)} is not a size of any input", line)
        if origin.kind == "value":
            return origin.node
        if symbol in self.sizes.of_inputs:
            return self.input_node("call_method", origin.kind, (origin.node, origin.dimension))
        with self.graph.inserting_after(origin.node):
            return self.graph.create_node("call_method", origin.kind, (origin.node, origin.dimension))
