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

import numpy as np
import torch
from torch import nn
from torch.fx import Proxy, Tracer
from torch.fx.proxy import TracerBase

from fxopt.tracing.same_values import same_value

SIZE_TYPES = (torch.SymInt, torch.SymFloat, torch.SymBool)
_TAKEN_OUT = (torch.Tensor, *SIZE_TYPES)
_WITHOUT_PARTS = frozenset({type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device})


@dataclasses.dataclass(frozen=True)
class Slot:
    """The place of the tensor of this index."""

    index: int


def dismantle(value: Any) -> tuple[Any, list[Any]]:
    """Return a copy of `value` with a `Slot` for each tensor and symbolic size, and these in order."""
    parts: list[Any] = []
    memo: dict[int, Any] = {}

    def strip(part: Any) -> Any:
        if isinstance(part, _TAKEN_OUT):
            parts.append(part)
            return Slot(len(parts) - 1)
        return _changed(part, strip, memo)

    return strip(value), parts


def filled(skeleton: Any, parts: Sequence[Any]) -> Any:
    """Return a copy of `skeleton` with `parts` in its slots."""
    memo: dict[int, Any] = {}

    def fill(part: Any) -> Any:
        if isinstance(part, Slot):
            return parts[part.index]
        return _changed(part, fill, memo)

    return fill(skeleton)


def assemble(skeleton: Any, parts: Sequence[Any]) -> Any:
    """Return `filled(skeleton, parts)`, as a call in a graph.

    Of proxies, as of a tracer that reads a pickled graph again, it records this call.
    """
    proxy = next((part for part in parts if isinstance(part, Proxy)), None)
    if proxy is None:
        return filled(skeleton, parts)
    return _recorded(proxy, assemble, _attribute_that_is(skeleton, proxy.tracer), list(parts))


def tensors_of(value: Any) -> list[torch.Tensor]:
    """Return the tensors inside `value`, in the order of `dismantle`; of a proxy, record this call."""
    if isinstance(value, Proxy):
        return _recorded(value, tensors_of, value)
    return [part for part in dismantle(value)[1] if isinstance(part, torch.Tensor)]


def _recorded(proxy: Proxy, function: Callable[..., Any], *args: Any) -> Any:
    return proxy.tracer.create_proxy("call_function", function, args, {})


def _attribute_that_is(value: Any, tracer: TracerBase) -> Any:
    """Return a proxy for the attribute of a module that is this object; the object itself where none is."""
    modules = tracer.root.named_modules() if isinstance(tracer, Tracer) else ()
    found = ((path, name) for path, module in modules for name, one in vars(module).items() if one is value)
    place = next(found, None)
    return value if place is None else tracer.create_proxy("get_attr", ".".join(filter(None, place)), (), {})


def whole_parts_of(value: Any) -> list[Any]:
    """Return the parts of `value` that `dismantle` leaves whole: neither tensors nor containers of some."""
    found: list[Any] = []
    memo: dict[int, Any] = {}

    def look(part: Any) -> Any:
        if isinstance(part, (torch.Tensor, *SIZE_TYPES)):
            return None
        changed = _changed(part, look, memo)
        if changed is part and not (isinstance(part, tuple) and not part):
            found.append(part)
        return changed

    look(value)
    return found


def kept(value: Any) -> Any:
    """Return `value` with copies of its containers and arrays, which later writes leave alone."""
    if isinstance(value, (set, bytearray, np.ndarray)):
        return value.copy()
    return value if is_plain_object(value) else _changed(value, kept, {})


def same_structure(one: Any, other: Any) -> bool:
    """Return whether two dismantled values are the same apart from the contents of their slots."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        if type(one) is not dict and not same_structure(own_attributes(one), own_attributes(other)):
            return False
        return list(one) == list(other) and all(same_structure(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same_structure, one, other))
    if is_plain_object(one):
        return same_structure(one.__dict__, other.__dict__)
    return same_value(one, other)


def first_difference(
    one: Any, other: Any, place: str, seen: frozenset[int] = frozenset()
) -> tuple[str, str, str] | None:
    """Return the first place where two dismantled values differ, and the parts there; None if they are equal.

    >>> first_difference({"a": [1, 2]}, {"a": [1, 3]}, "x")
    ("x['a'][1]", '2', '3')
    """
    if id(one) in seen:
        return None  # an object that refers to itself
    if type(one) is not type(other):
        return place, _named(one), _named(other)
    if one is other or (isinstance(one, Slot) and one == other):
        return None
    ours, others = _named_parts(one), _named_parts(other)
    if ours is None or others is None:
        return None if same_structure(one, other) else (place, _named(one), _named(other))
    if ours.keys() != others.keys():
        return f"the parts of {place}", ", ".join(ours), ", ".join(others)
    found = (first_difference(ours[name], others[name], place + name, seen | {id(one)}) for name in ours)
    return next((each for each in found if each is not None), None)


def own_attributes(value: dict[Any, Any]) -> dict[str, Any]:
    """Return the attributes of a dict that is a dataclass, too, apart from its items and fields left alone."""
    kind: Any = type(value)
    if not dataclasses.is_dataclass(kind):
        return {}
    defaults = {field.name: field.default for field in dataclasses.fields(kind)}
    return {
        name: part
        for name, part in value.__dict__.items()
        if part is not (dict.__getitem__(value, name) if dict.__contains__(value, name) else defaults.get(name, Slot))
    }


@dataclasses.dataclass(frozen=True)
class Fields:
    """The class of an output that is a dict and a dataclass, its items in their order, and its other attributes."""

    kind: type
    items: list[str]
    attributes: list[str]


def output_with(fields: Fields, parts: Sequence[Any]) -> Any:
    """Return an output with these `fields`, of which `parts` are the values, items first."""
    items = dict(zip(fields.items, parts))
    return _dataclass_dict(fields.kind, items, dict(zip(fields.attributes, parts[len(items) :])))


def _dataclass_dict(kind: Any, items: dict[str, Any], attributes: dict[str, Any]) -> Any:
    """Return a dict that is a dataclass, too (the ModelOutput of transformers), with its items in this order.

    Its own ``__init__`` would bring them into the order of its fields, while a model may have assigned them in another.
    """
    new = kind.__new__(kind)
    fields = {field.name: field.default for field in dataclasses.fields(kind)}
    new.__dict__.update({**fields, **items, **attributes})
    put = collections.OrderedDict.__setitem__ if isinstance(new, collections.OrderedDict) else dict.__setitem__
    for key, part in items.items():
        put(new, key, part)
    return new


def _named_parts(value: Any) -> dict[str, Any] | None:
    """Return the parts of a container or an object, by their Python expressions; None for other values."""
    if isinstance(value, dict):
        return {f"[{key!r}]": part for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return {f"[{index}]": part for index, part in enumerate(value)}
    if is_plain_object(value) and not isinstance(value, Slot):
        return {f".{name}": part for name, part in value.__dict__.items()}
    return None


def _named(value: Any) -> str:
    """Return a value in a message: a number or a text itself, anything else by its kind."""
    if isinstance(value, Slot):
        return "a tensor"
    return repr(value) if value is None or isinstance(value, (int, float, str)) else f"a {type(value).__name__}"


def is_torch_result(value: Any) -> bool:
    """Return whether `value` is one of ``torch.return_types``: values and indices of ``max``, say."""
    return isinstance(value, tuple) and type(value).__module__ == "torch.return_types"


def is_plain_object(value: Any) -> bool:
    """Return whether `value` is an instance of an ordinary Python class, whose state is its ``__dict__``."""
    kind: Any = type(value)
    return hasattr(value, "__dict__") and kind.__new__ is object.__new__ and not isinstance(value, nn.Module)


def _changed(value: Any, change: Callable[[Any], Any], memo: dict[int, Any]) -> Any:
    """Return a copy of the container `value` with `change` applied to its parts; anything else as it is."""
    kind = type(value)
    if kind in _WITHOUT_PARTS:
        return value
    if kind is list or kind is tuple:
        return kind(change(part) for part in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return kind(*(change(part) for part in value))
    if is_torch_result(value):
        return kind([change(part) for part in value])
    if isinstance(value, dict):
        return changed_dict(value, {key: change(part) for key, part in value.items()}, change)
    if not is_plain_object(value):
        return value
    if id(value) not in memo:
        new = memo[id(value)] = object.__new__(kind)
        new.__dict__.update({name: change(part) for name, part in value.__dict__.items()})
    return memo[id(value)]


def changed_dict(
    value: dict[Any, Any], items: dict[Any, Any], change: Callable[[Any], Any] = lambda part: part
) -> dict[Any, Any]:
    """Return a dict of the kind of `value` with other `items`; `change` is for attributes that it has besides."""
    kind: Any = type(value)
    if kind is dict:
        return items
    if kind is collections.OrderedDict:
        return collections.OrderedDict(items)
    if dataclasses.is_dataclass(kind):
        return _dataclass_dict(kind, items, {name: change(part) for name, part in own_attributes(value).items()})
    new = copy.copy(value)
    for key, part in items.items():  # `update` of a Counter would add
        new[key] = part
    return new
