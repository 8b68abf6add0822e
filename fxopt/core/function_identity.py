"""The identity of a function: its name, code, defaults and the values that it closes over."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any

import torch

_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.Tensor)


def identity_of(function: Callable[..., Any]) -> Any:
    """Return data that differ for functions that differ, though they share a name, as two lambdas of a module do.

    Anything but numbers, text, tensors, containers and functions among the values that it closes over stands for
    itself alone: then the data hold within this process. Globals that the function reads are left out.
    """
    return _described(function, ())


def _described(value: Any, within: tuple[int, ...]) -> Any:
    if id(value) in within:
        return "recursive"
    within = (*within, id(value))
    code = getattr(value, "__code__", None)
    if isinstance(code, CodeType):
        cells = [_content(cell) for cell in value.__closure__ or ()]
        held = (getattr(value, "__self__", None), cells, value.__defaults__, value.__kwdefaults__)
        return (value.__module__, value.__qualname__, _code(code), [_described(one, within) for one in held])
    if isinstance(value, tuple | list | set | frozenset):
        return type(value).__name__, [_described(one, within) for one in value]
    if isinstance(value, dict):
        return "dict", [(_described(key, within), _described(one, within)) for key, one in value.items()]
    return value if isinstance(value, _PLAIN) or not within[1:] else (type(value).__qualname__, id(value))


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a variable that has no value yet
        return "empty"


def _code(code: CodeType) -> Any:
    constants = [_code(one) if isinstance(one, CodeType) else one for one in code.co_consts]
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, constants
