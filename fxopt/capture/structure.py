"""Python values with tensors inside: take the tensors out, and put others in their place.

Lists, tuples, named tuples, torch's results, dicts, dataclasses and plain objects (a cache of keys and values, say) are
walked in one fixed order, so that `tensors_of` and `assemble` agree on which tensor is which.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

SIZE_TYPES = (torch.SymInt, torch.SymFloat, torch.SymBool)


@dataclasses.dataclass(frozen=True)
class Slot:
    """Where the tensor of this index was."""

    index: int


def dismantle(value: Any) -> tuple[Any, list[Any]]:
    """A copy of `value` with a `Slot` for each tensor and symbolic size, and these in order."""
    parts: list[Any] = []
    memo: dict[int, Any] = {}

    def strip(part: Any) -> Any:
        if isinstance(part, (torch.Tensor, *SIZE_TYPES)):
            parts.append(part)
            return Slot(len(parts) - 1)
        return _changed(part, strip, memo)

    return strip(value), parts


def assemble(skeleton: Any, parts: Sequence[Any]) -> Any:
    """A copy of `skeleton` with `parts` in its slots."""
    memo: dict[int, Any] = {}

    def fill(part: Any) -> Any:
        if isinstance(part, Slot):
            return parts[part.index]
        return _changed(part, fill, memo)

    return fill(skeleton)


def tensors_of(value: Any) -> list[torch.Tensor]:
    """The tensors inside `value`, in the order of `dismantle`."""
    return [part for part in dismantle(value)[1] if isinstance(part, torch.Tensor)]


def same_structure(one: Any, other: Any) -> bool:
    """Whether two dismantled values are the same but for what goes in their slots."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (int, float, str, Slot)):
        return one == other or one != one
    if isinstance(one, dict):
        return list(one) == list(other) and all(same_structure(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same_structure, one, other))
    if is_plain_object(one):
        return same_structure(one.__dict__, other.__dict__)
    return True


def first_difference(
    one: Any, other: Any, place: str, seen: frozenset[int] = frozenset()
) -> tuple[str, str, str] | None:
    """Where two dismantled values first differ, and what is there in each; None where they do not.

    >>> first_difference({"a": [1, 2]}, {"a": [1, 3]}, "x")
    ("x['a'][1]", '2', '3')
    """
    if id(one) in seen:
        return None  # an object that refers to itself
    if type(one) is not type(other):
        return place, _named(one), _named(other)
    ours, others = _named_parts(one), _named_parts(other)
    if ours is None or others is None:
        return None if same_structure(one, other) else (place, _named(one), _named(other))
    if ours.keys() != others.keys():
        return f"the parts of {place}", ", ".join(ours), ", ".join(others)
    found = (first_difference(ours[name], others[name], place + name, seen | {id(one)}) for name in ours)
    return next((each for each in found if each is not None), None)


def _named_parts(value: Any) -> dict[str, Any] | None:
    """What a container or an object holds, by how Python would reach it."""
    if isinstance(value, dict):
        return {f"[{key!r}]": part for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return {f"[{index}]": part for index, part in enumerate(value)}
    if is_plain_object(value) and not isinstance(value, Slot):
        return {f".{name}": part for name, part in value.__dict__.items()}
    return None


def _named(value: Any) -> str:
    """A value in a message: a number or a text itself, anything else by its kind."""
    if isinstance(value, Slot):
        return "a tensor"
    return repr(value) if value is None or isinstance(value, (int, float, str)) else f"a {type(value).__name__}"


def is_torch_result(value: Any) -> bool:
    """Whether `value` is one of ``torch.return_types``: values and indices of ``max``, say."""
    return isinstance(value, tuple) and type(value).__module__ == "torch.return_types"


def is_plain_object(value: Any) -> bool:
    """Whether `value` is an instance of an ordinary Python class, whose state is its ``__dict__``."""
    kind: Any = type(value)
    return hasattr(value, "__dict__") and kind.__new__ is object.__new__ and not isinstance(value, nn.Module)


def _changed(value: Any, change: Callable[[Any], Any], memo: dict[int, Any]) -> Any:
    """A copy of the container `value` with `change` applied to what it holds; anything else as it is."""
    kind = type(value)
    if kind is list or kind is tuple:
        return kind(change(part) for part in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return kind(*(change(part) for part in value))
    if is_torch_result(value):
        return kind([change(part) for part in value])
    if isinstance(value, dict):
        return _changed_dict(value, {key: change(part) for key, part in value.items()})
    if not is_plain_object(value):
        return value
    if id(value) not in memo:
        new = memo[id(value)] = object.__new__(kind)
        new.__dict__.update({name: change(part) for name, part in value.__dict__.items()})
    return memo[id(value)]


def _changed_dict(value: dict[Any, Any], items: dict[Any, Any]) -> Any:
    kind: Any = type(value)
    if kind is dict:
        return items
    if kind is collections.OrderedDict:
        return collections.OrderedDict(items)
    if hasattr(kind, "__dataclass_fields__"):  # the ModelOutput of transformers
        return kind(**items)
    new = copy.copy(value)
    new.update(items)
    return new
