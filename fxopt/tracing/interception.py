"""Stand between the model and torch: its autocast regions, its questions, and the lengths of its tensors."""

from __future__ import annotations

import contextlib
import dis
import inspect
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from types import CellType, CodeType, FrameType, FunctionType
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from fxopt.graph.nodes import SourceLine
from fxopt.tracing.facts import FACTS, MODES
from fxopt.tracing.lines import calling_line, is_models


class Told:
    """An object in the place of a bool: true in the thread that made it, false in all others.

    ``asked`` is the line of the model that last asked; torch's own questions are ignored.
    """

    def __init__(self, answer: bool = True) -> None:
        self.thread = threading.get_ident()
        self.answer = answer
        self.asked: SourceLine | None = None

    def __bool__(self) -> bool:
        if threading.get_ident() != self.thread:
            return False
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename == __file__:
            frame = frame.f_back
        if frame is not None and is_models(frame.f_code.co_filename):
            self.asked = calling_line() or self.asked
        return self.answer

    def __or__(self, other: Any) -> Any:
        return bool(self) | other

    def __and__(self, other: Any) -> Any:
        return bool(self) & other

    def __eq__(self, other: object) -> bool:
        return bool(self) == other

    __ror__, __rand__ = __or__, __and__
    __hash__ = None  # type: ignore[assignment]


_EXPORTING = "_is_exporting_flag"
"""Of ``torch.compiler``, from torch 2.7 on."""
_FLAGS = ("_is_compiling_flag", _EXPORTING)


@contextlib.contextmanager
def exporting(told: Told) -> Iterator[None]:
    """Answer ``torch.compiler.is_exporting()`` in this thread with `told`, and turn the compiler off meanwhile.

    Told that they are exported, models keep to code that is independent of data: transformers always builds its masks.
    The compiler would give up on a function that it meets during a recording, for good: ``torch.cond`` fails ever
    after.
    """
    compiler: Any = torch.compiler
    flags = {name: getattr(compiler, name) for name in _FLAGS if hasattr(compiler, name)}
    for name in flags:
        setattr(compiler, name, told)
    try:
        with torch.compiler.set_stance("force_eager"):
            yield
    finally:
        for name, flag in flags.items():
            setattr(compiler, name, flag)


@contextlib.contextmanager
def not_exporting() -> Iterator[None]:
    """Suspend `exporting`: a script, told that it is exported, would run its Python source in its place, wrongly."""
    compiler: Any = torch.compiler
    flag = getattr(compiler, _EXPORTING, None)
    if flag is None:
        yield
        return
    setattr(compiler, _EXPORTING, False)
    try:
        yield
    finally:
        setattr(compiler, _EXPORTING, flag)


@contextlib.contextmanager
def autocast_regions(enter: Callable[[Any], None], leave: Callable[[Any], None]) -> Iterator[None]:
    """Report the autocast regions that this thread enters and leaves: function modes do not see them."""
    thread = threading.get_ident()
    kind: Any = torch.autocast
    kept_enter, kept_exit = kind.__enter__, kind.__exit__

    def entering(region: Any) -> Any:
        result = kept_enter(region)
        if threading.get_ident() == thread:
            enter(region)
        return result

    def leaving(region: Any, *error: Any) -> Any:
        if threading.get_ident() == thread:
            leave(region)
        return kept_exit(region, *error)

    kind.__enter__, kind.__exit__ = entering, leaving
    try:
        yield
    finally:
        kind.__enter__, kind.__exit__ = kept_enter, kept_exit


@contextlib.contextmanager
def lengths_as_sizes(model: nn.Module) -> Iterator[None]:
    """Let ``len(x)`` in the code of `model` give ``x.shape[0]`` as it is, if that is symbolic.

    Python makes an int of the return value of ``__len__``, and torch then fixes the size. So the name is looked up in
    the globals of the model's own code, as `torch.fx.wrap` has it; code that has a ``len`` of its own keeps it.
    """
    changed = [names for names in _globals_of(model) if "len" not in names]
    for names in changed:
        names["len"] = _length
    try:
        yield
    finally:
        for names in changed:
            if names.get("len") is _length:
                del names["len"]


def _length(of: Any) -> Any:
    size: Any = of.shape[0] if isinstance(of, FakeTensor) and of.dim() else None
    return size if isinstance(size, torch.SymInt) else len(of)


def named_by_forward(model: nn.Module) -> dict[str, SourceLine | None]:
    """Return the modes of torch and classes of inputs that forward asks for, each with the line that does.

    A function mode sees no such question, since no function of a tensor is in it; and another function put in the place
    of torch's would stay in what is imported meanwhile. So the names in the code tell, of what forward calls by name.
    """
    by_name = {name: mode for mode, each in MODES.items() for name in each.asked_by if hasattr(torch, name)}
    by_name |= dict.fromkeys(FACTS["class"].asked_by, "class")
    found: dict[str, SourceLine | None] = {}
    for function in _reached_from_forward(model):
        for name in by_name.keys() & _names_in(function.__code__):
            found.setdefault(by_name[name], _line_of(function.__code__, name))
    return found


def _reached_from_forward(model: nn.Module) -> list[FunctionType]:
    """Return the functions of the model's code that forward, or what it calls, has by name or in its closure."""
    by_name: dict[str, list[FunctionType]] = {}
    attributes = (item for module in model.modules() for item in module.__dict__.items() if _is_function(item[1]))
    for name, function in (*((each.__name__, each) for each in _code_of(model)), *attributes):
        by_name.setdefault(name, []).append(function)
    reached: dict[int, FunctionType] = {}
    todo = by_name.pop("forward", [])
    while todo:
        function = todo.pop()
        if id(function) not in reached:
            reached[id(function)] = function
            todo += _functions(cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell))
            todo += [each for name in _names_in(function.__code__) for each in by_name.pop(name, ())]
    return list(reached.values())


def _is_filled(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _names_in(code: CodeType) -> set[str]:
    """Return the names of globals and attributes in a function, and in the functions within it."""
    inner = (each for each in code.co_consts if isinstance(each, CodeType))
    return set(code.co_names).union(*map(_names_in, inner))


def _line_of(code: CodeType, name: str) -> SourceLine:
    numbers = [each.positions.lineno for each in dis.get_instructions(code) if each.argval == name and each.positions]
    return SourceLine(code.co_filename, next(filter(None, numbers), code.co_firstlineno), code.co_name)


def _globals_of(model: nn.Module) -> list[dict[str, Any]]:
    """Return the globals of the methods of the model's modules, and of the functions that these name, each once."""
    return list({id(each.__globals__): each.__globals__ for each in _code_of(model)}.values())


def _code_of(model: nn.Module) -> list[FunctionType]:
    """Return the methods of the model's modules, and the functions in their globals, each once."""
    kinds = {kind for module in model.modules() for kind in type(module).__mro__}
    methods = _functions(value for kind in kinds for value in vars(kind).values())
    of_methods = {id(each.__globals__): each.__globals__ for each in methods}
    named = _functions(value for names in of_methods.values() for value in list(names.values()))
    return list({id(each): each for each in (*methods, *named)}.values())


def _functions(values: Iterable[Any]) -> list[FunctionType]:
    """Return the functions of a model's code among `values`, static methods and wrapped ones included."""
    found = (inspect.unwrap(getattr(value, "__func__", value)) for value in values if _is_function(value))
    return [each for each in found if isinstance(each, FunctionType) and is_models(each.__code__.co_filename)]


def _is_function(value: Any) -> bool:
    return isinstance(value, (FunctionType, staticmethod, classmethod))
