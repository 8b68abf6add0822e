"""Answers of torch's layers, computed once in a recording for all layers and inputs of one kind.

Repeated blocks call layers that differ in their weights alone. On fake tensors each such call costs torch a handful of
operations and much arithmetic on symbolic sizes, for an answer that is known from the first block.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeAlias

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from fxopt.graph.hooks import HOOKS
from fxopt.process.module_calls import MODULE_CALL
from fxopt.tracing.results import storage_of

Sizes: TypeAlias = tuple[int | torch.SymInt, ...]
Answer: TypeAlias = tuple[Sizes, Sizes, torch.dtype, torch.device, bool]
"""Sizes, strides, dtype, device, and whether it needs a gradient."""

_SETTLED_BY_KIND = {
    nn.Linear, nn.Embedding, nn.LayerNorm, nn.RMSNorm, nn.GroupNorm, nn.BatchNorm2d, nn.Conv1d, nn.Conv2d,
    nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid,
}  # fmt: skip
"""Layers whose answer's size, strides and type follow from the parts of `_kind`, and whose ``extra_repr`` names all the
arguments they were made with."""


class LeafAnswers:
    """The answers of one recording on fake tensors, by the kind of layer and input."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Answer] = {}

    def call(self, module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        """Return the answer of `module`, called with these arguments."""
        kind = _kind(module, args[0]) if len(args) == 1 and not kwargs else None
        if kind is not None and kind in self._known:
            return _fake(self._known[kind])
        result = MODULE_CALL(module, *args, **kwargs)
        if kind is not None and _is_new_memory(result, args[0]):
            sizes, strides = tuple(result.shape), result.stride()
            self._known[kind] = (sizes, strides, result.dtype, result.device, result.requires_grad)
        return result


def _kind(module: nn.Module, x: Any) -> Hashable | None:
    """Return all that the answer's kind depends on; None if that is unknown."""
    if type(module) not in _SETTLED_BY_KIND or module.training or type(x) is not FakeTensor:
        return None
    if x.layout != torch.strided or "forward" in module.__dict__ or any(module.__dict__[table] for table in HOOKS):
        return None
    tensors = (*module._parameters.items(), *module._buffers.items())
    weights = tuple((name, None if tensor is None else _described(tensor)) for name, tensor in tensors)
    device = x.device.type
    modes = (torch.is_grad_enabled(), torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
    return type(module), module.extra_repr(), weights, _described(x), modes


def _described(tensor: torch.Tensor) -> Hashable:
    sizes = tuple(
        size.node.expr if isinstance(size, torch.SymInt) else size for size in (*tensor.shape, *tensor.stride())
    )
    return type(tensor), sizes, tensor.dtype, tensor.device, tensor.requires_grad


def _is_new_memory(result: Any, x: torch.Tensor) -> bool:
    """Return whether `result` is a tensor of its own, unlike that of an activation in place."""
    return type(result) is FakeTensor and result.layout == torch.strided and storage_of(result) != storage_of(x)


def _fake(answer: Answer) -> torch.Tensor:
    """Return a fake tensor like an earlier answer; a leaf of autograd would refuse writes, so it is none."""
    sizes, strides, dtype, device, needs_gradient = answer
    tensor = torch.empty_strided(sizes, strides, dtype=dtype, device=device)
    return tensor.requires_grad_().clone() if needs_gradient else tensor
