"""The same model in float64: what its outputs would be if rounding were a billion times finer."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from fxopt.evidence.running import copied, run

_WIDER = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}
_CASTS = {Tensor.float, Tensor.half, Tensor.bfloat16}


class _Widened(TorchFunctionMode):
    """Computes in float64 where the code asks for less, in constants and in casts, inside modules too."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        args, kwargs = tree_map(_wider, (args, kwargs or {}))
        return tree_map(_wider, (Tensor.double if func in _CASTS else func)(*args, **kwargs))


def _wider(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return _WIDER.get(value, value)
    if isinstance(value, Tensor) and value.dtype in _WIDER:
        return value.to(_WIDER[value.dtype])
    return value


def in_float64(model: nn.Module) -> nn.Module:
    """A copy whose parameters, buffers and other tensors are float64; ties stay ties.

    The copy never holds the weights in their own precision, so it costs twice the model, not three times.
    """
    memo: dict[int, Any] = {}
    for module in model.modules():
        for tensor in (*module._parameters.values(), *module._buffers.values(), *vars(module).values()):
            if isinstance(tensor, nn.Parameter):
                memo[id(tensor)] = nn.Parameter(_wider(tensor.detach()), requires_grad=False)
            elif isinstance(tensor, Tensor):
                memo[id(tensor)] = _wider(tensor.detach())
    return copy.deepcopy(model, memo)


def run_in_float64(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a model of `in_float64` returns for the inputs, computed in float64 throughout."""
    args, kwargs = copied((args, kwargs), _wider)
    with _Widened():
        return run(model, args, kwargs)
