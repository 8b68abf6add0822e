"""Equality of the Python values among inputs and outputs: a model may decide by all that differs."""

from __future__ import annotations

from functools import partial
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import nn

from fxopt.graph.tensor_state import same_bytes


def same_value(one: Any, other: Any, seen: frozenset[int] = frozenset()) -> bool:
    """Return whether two values have the same type and the same contents, dicts in any order.

    A NaN is the same as a NaN, and -0.0 is another number than 0.0. Functions are the same if their code and the values
    that it refers to are, methods if their functions and objects are, modules and classes if they are one object. An
    object whose class has no equality, or one that gives no bool, goes by its state. One that tells none (a lock) goes
    by its type.

    >>> same_value([1], [True]), same_value(float("nan"), float("nan")), same_value(slice(1), slice(2))
    (False, True, False)
    """
    if one is other or id(one) in seen:
        return True
    if type(one) is not type(other) or isinstance(one, (type, nn.Module, ModuleType)):
        return False
    inner = seen | {id(one)}
    if isinstance(one, (float, complex)):
        return repr(one) == repr(other)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(same_value(x, y, inner) for x, y in zip(one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_value(one[key], other[key], inner) for key in one)
    if isinstance(one, torch.Tensor) and one.layout is other.layout is torch.strided:
        return _kind_of(one) == _kind_of(other) and (one.is_meta or same_bytes(one, other))
    if isinstance(one, FunctionType):
        return one.__code__ == other.__code__ and same_value(_referred(one), _referred(other), inner)
    if isinstance(one, MethodType):
        return same_value((one.__func__, one.__self__), (other.__func__, other.__self__), inner)
    if isinstance(one, partial):
        return same_value((one.func, one.args, one.keywords), (other.func, other.args, other.keywords), inner)
    if type(one) is np.ndarray:
        contents: Any = np.ndarray.tolist if one.dtype.hasobject else np.ndarray.tobytes
        return _kind_of(one) == _kind_of(other) and same_value(contents(one), contents(other), inner)
    if isinstance(one, np.ma.MaskedArray):
        masks = np.ma.getmaskarray(one), np.ma.getmaskarray(other)
        return same_value((one.data, masks[0]), (other.data, masks[1]), inner)
    equal = _own_equality(one, other)
    return same_value(_state_of(one), _state_of(other), inner) if equal is None else equal


def _kind_of(value: Any) -> tuple[Any, ...]:
    return value.dtype, tuple(value.shape), getattr(value, "device", None)


def _referred(function: FunctionType) -> tuple[Any, ...]:
    cells = [cell.cell_contents for cell in function.__closure__ or () if cell != CellType()]  # an unset one has none
    return function.__defaults__, function.__kwdefaults__, cells


def _own_equality(one: Any, other: Any) -> bool | None:
    """Return the answer of the class's own equality; None if it has none, or one that raises or gives an array."""
    kind: Any = type(one)
    if kind.__eq__ is object.__eq__:
        return None
    try:
        equal = one == other
    except Exception:  # noqa: BLE001  code of the user, for which the state is asked instead
        return None
    return equal if isinstance(equal, bool) else None


def _state_of(value: Any) -> Any:
    """Return the class and attributes of an object; None if it tells none, its identity if its name stands for it."""
    try:
        made = value.__reduce_ex__(4)
    except Exception:  # noqa: BLE001  TypeError of Python's own classes, and whatever other classes raise
        return None
    return id(value) if isinstance(made, str) else made[:3]
