"""The tensors that a recorded call takes and gives: which node made each, also inside containers."""

from __future__ import annotations

import builtins
import dataclasses
import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.fx import Node

from fxopt.tracing.size_nodes import SizeNodes
from fxopt.tracing.sources import Sources
from fxopt.tracing.structure import SIZE_TYPES, changed_dict

Emit = Callable[[str, Any, Any, Any, Any], Node]
"""Makes a node of operation, target, args, kwargs and the value that it had."""


class Results:
    """Binds the results of calls to their nodes."""

    def __init__(self, sources: Sources, sizes: SizeNodes, emit: Emit, alias: Callable[..., Any]) -> None:
        self.sources, self.sizes, self.emit, self.alias = sources, sizes, emit, alias

    def bind(self, result: Any, node: Node, inputs: Any = ()) -> Any:
        """Remember `node` as the maker of `result`; add a node for each part of a container.

        A tensor that is one of `inputs` (dropout in eval, ``contiguous``) is given back as another object,
        so that each has its node.
        """
        old = {id(tensor) for tensor in tensors_in(inputs)}
        return self._bound(result, node, old)

    def _bound(self, value: Any, node: Node, old: set[int]) -> Any:
        if isinstance(value, torch.Tensor):
            if id(value) in old:
                value = self.alias(value)
            self.sources.track(value, node)
        elif isinstance(value, SIZE_TYPES):
            self.sizes.remember(value, node)
        elif self._has_parts(value):
            return self._bound_container(value, node, old)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            for field in dataclasses.fields(value):
                part = self._part(getattr(value, field.name), node, field.name, builtins.getattr, old)
                object.__setattr__(value, field.name, part)
        return value

    def _bound_container(self, value: Any, node: Node, old: set[int]) -> Any:
        if isinstance(value, dict):
            items = {key: self._part(item, node, key, operator.getitem, old) for key, item in value.items()}
            return changed_dict(value, items)
        parts = [self._part(item, node, index, operator.getitem, old) for index, item in enumerate(value)]
        if hasattr(value, "_fields"):
            return type(value)(*parts)
        return type(value)(parts)  # list, tuple, torch.return_types.*

    def _part(self, item: Any, node: Node, key: Any, read: Callable[..., Any], old: set[int]) -> Any:
        if not isinstance(item, (torch.Tensor, *SIZE_TYPES)) and not self._has_parts(item):
            return item
        return self._bound(item, self.emit("call_function", read, (node, key), {}, item), old)

    def _has_parts(self, value: Any) -> bool:
        """Return whether a container has parts that later operations could use."""
        is_container = isinstance(value, (tuple, list, dict))
        return is_container and (has_tensor(value) or self.sources.is_unbacked(value))


def storage_of(tensor: torch.Tensor) -> int:
    try:
        return tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):  # sparse and functorch's wrapped tensors have none
        return id(tensor)


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in the arguments of a call."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from tensors_in(part)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))
    elif isinstance(value, slice):
        yield from tensors_in((value.start, value.stop, value.step))


def has_tensor(value: Any) -> bool:
    return next(tensors_in(value), None) is not None
