"""Parameters stay as they were where forward writes to them, as one that normalizes its prototypes in place does.

They may be many gigabytes, so a parameter is copied when an operator is about to write to it, and not before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fxopt.graph.tensor_state import TensorState, is_plain


class PreservedParameters(TorchDispatchMode):
    """A region in which parameters are copied before they are written to; `bring_back` undoes what was written."""

    supports_higher_order_operators = True

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        plain = [parameter for parameter in model.parameters() if is_plain(parameter)]
        self._data = [(parameter, parameter.data, TensorState.of(parameter).memory) for parameter in plain]
        self._by_storage: dict[int, list[torch.Tensor]] = {}
        for _, data, _ in self._data:
            self._by_storage.setdefault(data.untyped_storage()._cdata, []).append(data)
        self._copies: list[tuple[torch.Tensor, torch.Tensor]] = []

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if isinstance(func, OpOverload) and func._schema.is_mutable:
            for tensor in _written_by(func, args, kwargs):
                data = self._by_storage.pop(tensor.untyped_storage()._cdata, []) if is_plain(tensor) else []
                with unset_fake_temporarily():
                    self._copies += [(each, each.clone()) for each in data]
        return func(*args, **kwargs)

    def bring_back(self) -> None:
        for data, copy in self._copies:
            with torch.inference_mode(data.is_inference()), torch.no_grad():
                data.copy_(copy)
        for parameter, data, memory in self._data:
            if TensorState.of(parameter).memory != memory:
                parameter.data = data


def _written_by(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[torch.Tensor]:
    for place, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = args[place] if place < len(args) else kwargs.get(argument.name)
            yield from (leaf for leaf in tree_leaves(given) if isinstance(leaf, torch.Tensor))
