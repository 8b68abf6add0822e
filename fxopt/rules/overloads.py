"""The schemas of torch's operators, and the resolution of a call to one of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

ARGUMENTS = {
    "self": "input",
    "axis": "dim",
    "axis0": "dim0",
    "axis1": "dim1",
    "keepdims": "keepdim",
    "training": "train",
    "shape": "size",
    "tensor": "input",
    "split_size_or_sections": "split_size",
    "split_sizes": "split_size",
}
"""Second names of arguments."""

UNSEEN = {"_stacklevel", "inplace", "cudnn_enable"}
"""Arguments that leave the result as it is; ``inplace=True`` is handled apart."""

Kind = Callable[[Node], bool | None]
"""Answers for a node: True for a tensor, False for another value, None for an unknown type."""


@dataclass(frozen=True)
class Overload:
    """A schema: its label, and the names, types and defaults of its arguments."""

    label: str
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    keyword_only: tuple[bool, ...]
    defaults: Mapping[str, Any]

    def bind(self, args: Any, kwargs: Mapping[str, Any], kind: Kind, strict: bool) -> dict[str, Any] | None:
        """Return the arguments by name, defaults filled in; None if the call fits another overload."""
        by_position = self._by_position
        if len(args) >= len(by_position) > 1 and self.kinds[1] == "List[int]":
            rest = args[1:]
            if rest and not isinstance(rest[0], list | tuple):  # x.view(2, 3) is x.view((2, 3))
                args = (args[0], tuple(rest))
        if len(args) > len(by_position):
            return None
        values = dict(zip(by_position, args))
        if kwargs:
            if values.keys() & kwargs.keys() or kwargs.keys() - set(self.names):
                return None
            values.update(kwargs)
        for name, type_ in zip(self.names, self.kinds):
            if name in values:
                if not _fits(type_, values[name], kind, strict):
                    return None
                if "List[int]" in type_ and isinstance(values[name], int):
                    values[name] = (values[name],)
            elif name not in self.defaults:
                return None
        return {k: v for k, v in {**self.defaults, **values}.items() if k not in UNSEEN}

    @functools.cached_property
    def _by_position(self) -> tuple[str, ...]:
        return tuple(name for name, only in zip(self.names, self.keyword_only) if not only)


@functools.cache
def overloads(family: str) -> tuple[Overload, ...]:
    """Return the overloads of an operator that compute a tensor; empty for an unknown operator."""
    packet = getattr(torch.ops.aten, family, None)
    found = []
    for name in packet.overloads() if packet is not None else ():
        overload = getattr(packet, name)
        arguments = overload._schema.arguments
        kinds = tuple(str(argument.type) for argument in arguments)
        if any(argument.is_out for argument in arguments) or not any("Tensor" in kind for kind in kinds):
            continue  # writes into a given tensor, or is TorchScript's own for numbers and text
        names = tuple(ARGUMENTS.get(argument.name, argument.name) for argument in arguments)
        defaults = {
            name: argument.default_value
            for name, argument in zip(names, arguments)
            if argument.has_default_value() or str(argument.type) == "Optional[str]"
        }
        label = str(overload).removeprefix("aten.")
        found.append(Overload(label, names, kinds, tuple(a.kwarg_only for a in arguments), defaults))
    return tuple(found)


def _fits(type_: str, value: Any, kind: Kind, strict: bool) -> bool:
    """Check that `value` may be an argument of a schema type. For a node, at most its being a tensor is known."""
    if isinstance(value, Node):
        is_one = kind(value)
        return is_one is not False if "Tensor" in type_ and "List" not in type_ else is_one is not True
    if value is None:
        return "Optional" in type_
    if isinstance(value, list | tuple):
        return "List" in type_
    if isinstance(value, bool):
        return "bool" in type_ or "number" in type_ or ("Tensor" in type_ and not strict)
    if isinstance(value, int | float | complex):
        plain = "number" in type_ or "float" in type_ or ("int" in type_ and isinstance(value, int))
        return plain or ("Tensor" in type_ and "List" not in type_ and not strict)
    return "str" in type_ if isinstance(value, str) else "int" in type_ or "Device" in type_
