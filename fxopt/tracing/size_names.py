"""The symbolic sizes after a recording, in readable names: shapes, free sizes, and checks for the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy
import torch
from sympy.core.relational import Relational
from torch.utils._sympy.printers import PythonPrinter

from fxopt.tracing.checks import SizeCheck
from fxopt.tracing.sizes import InputSize, Question, Sizes, has_choices, is_cache, is_image, is_pixel_mask


class SizeNames:
    """Names for the symbols of a recording that has ended.

    `own` has another name for each symbol; `common` has one name for all that were found equal.
    """

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.own = _own_names(sizes)
        self.common: dict[Any, str] = {}
        for symbol, name in self.own.items():
            self.common.setdefault(self._final(symbol), name)
        for symbol, name in self.own.items():
            self.common.setdefault(symbol, self.common.get(self._final(symbol), name))
        self._texts: dict[Any, int | str] = {}

    def _final(self, expression: Any) -> Any:
        return self.sizes.env.replace(expression)

    def text(self, size: Any) -> int | str:
        """Return a size for people: an int, or an expression over readable names."""
        if not isinstance(size, torch.SymInt):
            return int(size)
        expression = size.node._expr
        if expression not in self._texts:
            final = self._final(expression)
            self._texts[expression] = int(final) if final.is_number else _printed(final, self.common)
        return self._texts[expression]

    def free(self) -> dict[str, list[InputSize]]:
        """Return the sizes that stayed free, under their common names."""
        found: dict[str, list[InputSize]] = {}
        for symbol, size in self.sizes.of_inputs.items():
            if isinstance(self._final(symbol), sympy.Symbol):
                found.setdefault(self.common[symbol], []).append(size)
        return found

    def checks(self) -> tuple[SizeCheck, ...]:
        """Return conditions under which every question about the sizes has the answer that it had."""
        found: dict[str, SizeCheck] = {}
        for check in (*self._equalities(), *self._others()):
            found.setdefault(check.condition, check)
        return (*found.values(), *map(fixed_size_check, self.sizes.never_free))

    def _equalities(self) -> list[SizeCheck]:
        """Return checks for sizes that were found equal to a number, to another size, or to an expression of others."""
        checks = []
        leaders: dict[Any, Any] = {}
        for symbol in self.sizes.of_inputs:
            final = self._final(symbol)
            if isinstance(final, sympy.Symbol):
                final = leaders.setdefault(final, symbol)  # the first of all that are equal
            if final != symbol and final.free_symbols <= self.sizes.of_inputs.keys():
                condition = f"{self.own[symbol]} == {_printed(final, self.own)}"
                asked = self._question_about(symbol, final)
                checks.append(self._check(condition, {symbol, *final.free_symbols}, self.own, asked))
        return checks

    def _question_about(self, symbol: Any, final: Any) -> Question:
        """Return the question that made `symbol` equal to `final`: about them alone, or the first about it."""
        about = [
            question
            for question in self.sizes.questions
            if isinstance(question.condition, sympy.Eq) and symbol in question.condition.free_symbols
        ]
        exact = [each for each in about if each.condition.free_symbols == {symbol, *final.free_symbols}]
        return next(iter(exact + about), Question(None, None, "an operation of torch asked"))

    def _others(self) -> list[SizeCheck]:
        """Return checks for the questions that the equalities leave open."""
        checks = []
        for question in self.sizes.questions:
            condition, names = self._final(question.condition), self.common
            if not condition.free_symbols <= self.sizes.of_inputs.keys():
                condition, names = question.condition, self.own
            if condition.free_symbols and condition.free_symbols <= self.sizes.of_inputs.keys():
                text = _printed(condition, names)
                checks.append(self._check(text, condition.free_symbols, names, question))
        return checks

    def _check(self, condition: str, symbols: Any, names: Mapping[Any, str], asked: Question) -> SizeCheck:
        places = [(names[s], size) for s, size in self.sizes.of_inputs.items() if s in symbols]
        sizes = tuple((name, size.input.path, size.dimension) for name, size in places)
        return SizeCheck(condition, sizes, asked.line, asked.reason)


def fixed_size_check(size: InputSize, reason: str = "") -> SizeCheck:
    """Return the check of a size that had no symbol."""
    value, name = size.in_example, size.input.name
    reason = reason or f"not among the free sizes: dynamic={{{name!r}: [{size.dimension}]}} asks for it"
    if value in (0, 1):
        reason = f"it was {value} in the example: capture with an example of 2 or more to free it"
    return SizeCheck(f"{size.name} == {value}", ((size.name, size.input.path, size.dimension),), None, reason)


def _own_names(sizes: Sizes) -> dict[Any, str]:
    own: dict[Any, str] = {}
    for symbol, size in sizes.of_inputs.items():
        name = _readable(size)
        own[symbol] = name if name and name not in own.values() else size.name
    for symbol, origin in sizes.origins.items():
        ending = "" if origin.kind == "value" else f"_{origin.dimension}"
        own.setdefault(symbol, f"{origin.kind}_of_{origin.node.name}{ending}")
    return own


def _readable(size: InputSize) -> str:
    """Return people's name for this size: the first of its kind gets it."""
    tensor = size.input.tensor
    if size.dimension == 0:
        return "batch"
    if is_cache(size.input):
        return "past" if size.dimension == 2 else ""
    if is_image(size.input):
        return ("", "", "height", "width")[size.dimension]
    if is_pixel_mask(size.input):
        return ""
    if has_choices(size.input):
        return ("batch", "choices", "sequence")[size.dimension]
    if size.dimension != 1 or tensor.dim() not in (2, 3):
        return ""
    if size.input.name.startswith("decoder_"):
        return "decoder_sequence"
    return "samples" if tensor.dim() == 2 and tensor.is_floating_point() else "sequence"


def _printed(expression: Any, names: Mapping[Any, str]) -> str:
    """Return the expression as Python, over `names`."""
    if isinstance(expression, Relational) and expression.lhs.could_extract_minus_sign():
        expression = expression.reversedsign  # sequence >= 7, for -sequence <= -7
    renamed = {
        symbol: sympy.Symbol(names.get(symbol, str(symbol)), integer=True, positive=True)
        for symbol in expression.free_symbols
    }
    return str(PythonPrinter().doprint(expression.xreplace(renamed)))
