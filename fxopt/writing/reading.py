"""The rules of a text. It is Python, and is run: in a process of its own until its laws hold, for whoever wrote it."""

from __future__ import annotations

import linecache
import re
import sys
import types
import zlib
from typing import Any

import torch
from torch import nn

from fxopt.core import Pass
from fxopt.errors import FxoptError
from fxopt.rules import Rule, RuleSet
from fxopt.writing.answer import Fault

FILE = "your rule"
"""The name of the text in messages."""
MODULE = "fxopt_written_rules_"
"""With a number of the text behind it: rules of one name in two texts are two passes."""
MOST_RULES = 20
NAMES = {"fxopt": ["rewrite", "require", "with_tensors", "RuleSet"], "nn": sorted(nn.modules.__all__)}
"""By module, the names that a rule is written with, to be completed."""


def passes_of(text: str) -> tuple[tuple[Pass[Any], ...], Fault | None]:
    """Run a text, and return the rules and passes that it defines, in its order, or its fault.

    The names `fxopt`, `torch` and `nn` are there without an import.
    """
    linecache.cache[FILE] = (len(text), None, text.splitlines(keepends=True), FILE)
    try:
        code = compile(text, FILE, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return (), _fault_of_syntax(error)
    name = f"{MODULE}{zlib.crc32(text.encode())}"
    module = types.ModuleType(name)
    sys.modules[name] = module
    vars(module).update({"fxopt": sys.modules["fxopt"], "torch": torch, "nn": nn})
    try:
        exec(code, vars(module))
        found = _passes(module)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the text is someone's own; each error of it is told
        return (), fault_of(error)
    if not found:
        return (), Fault("there is no rule here yet: write a function with `yield` below `@fxopt.rewrite`")
    return found[:MOST_RULES], None


def _passes(module: types.ModuleType) -> tuple[Pass[Any], ...]:
    made: dict[int, Pass[Any]] = {}
    for value in vars(module).values():
        if isinstance(value, Rule):
            made[id(type(value))] = value
        elif isinstance(value, type) and issubclass(value, Pass) and value.__module__ == module.__name__:
            made[id(value)] = value()
    in_sets = {type(rule) for one in made.values() if isinstance(one, RuleSet) for rule in one.rules}
    return tuple(one for one in made.values() if type(one) not in in_sets)


def _fault_of_syntax(error: BaseException) -> Fault:
    if not isinstance(error, SyntaxError):
        return Fault(f"Python cannot read this ({error or type(error).__name__})")
    line = error.lineno or 0
    return Fault(f"this is not Python yet: {error.msg}", line, (error.text or "").strip())


def fault_of(error: BaseException) -> Fault:
    """Return an error that the text raised as a fault at the last line of the text on its way."""
    line = 0
    seen: BaseException | None = error
    while seen is not None:
        trace = seen.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == FILE:
                line = trace.tb_lineno
            trace = trace.tb_next
        seen = seen.__cause__
    told = _in_words(error)
    if not line and (named := re.search(rf"{FILE}:(\d+)", told)):
        line = int(named[1])
    code = linecache.getline(FILE, line).strip() if line else ""
    return Fault(re.sub(rf" \({FILE}:\d+\)", "", told), line, code)


def _is_of_text(error: BaseException) -> bool:
    """Return whether a line of the text raised the error, rather than a line of fxopt that it called."""
    trace, last = error.__traceback__, ""
    while trace is not None:
        last, trace = trace.tb_frame.f_code.co_filename, trace.tb_next
    return last == FILE or (isinstance(error, FxoptError) and error.__cause__ is not None)


def _in_words(error: BaseException) -> str:
    if isinstance(error, FxoptError):
        if error.__cause__ is not None and _is_of_text(error.__cause__):
            return _in_words(error.__cause__)
        return str(error).removeprefix(f"{FILE}: ")
    if isinstance(error, NameError) and error.name:
        close = [name for name in ("fxopt", "torch", "nn") if hasattr(sys.modules.get(name, torch), error.name)]
        hint = f"; did you mean {'torch' if 'torch' in close else close[0]}.{error.name}?" if close else ""
        return f"the name {error.name} has no meaning here{hint}"
    if isinstance(error, AttributeError) and error.name:
        return f"{error}" if str(error) else f"there is no {error.name}"
    if isinstance(error, ModuleNotFoundError):
        return f"there is no module {error.name} here"
    if isinstance(error, MemoryError):
        return "it takes more memory than it may"
    kind = type(error).__name__
    article = "an" if kind[0] in "AEIOU" else "a"
    return f"{error} ({article} {kind})" if str(error) else f"it raised {article} {kind}"
