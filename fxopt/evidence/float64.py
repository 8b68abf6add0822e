"""The same model in float64: its outputs as if rounding were a billion times finer."""

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
    """A mode that computes in float64 where the code asks for less, in constants and in casts, inside modules too.

    An operator of another library that takes only other dtypes (those of quantized layers) gets float32, and stands in
    `narrow`.
    """

    def __init__(self, narrow: dict[str, None]) -> None:
        super().__init__()
        self.narrow = narrow

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        args, kwargs = tree_map(_wider, (args, kwargs or {}))
        if not _is_of_another_library(func):
            return tree_map(_wider, (Tensor.double if func in _CASTS else func)(*args, **kwargs))
        try:
            return tree_map(_wider, func(*args, **kwargs))
        except (RuntimeError, TypeError):  # it takes only its own dtype, or nothing at all, which the second call tells
            args, kwargs = _narrowed((args, kwargs), torch.float32)
            result = func(*args, **kwargs)
        self.narrow[str(func)] = None
        return tree_map(_wider, result)


class _InItsOwnDtype(nn.Module):
    """A script: modes see none of its operations, and its weights keep their dtype."""

    def __init__(self, script: nn.Module, path: str, own: torch.dtype) -> None:
        super().__init__()
        self.script, self.path, self.own = script, path, own

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        with torch._C.DisableTorchFunction():
            args, kwargs = _narrowed((args, kwargs), self.own)
            return tree_map(_wider, self.script(*args, **kwargs))


def _is_of_another_library(func: Callable[..., Any]) -> bool:
    packet = func.overloadpacket if isinstance(func, torch._ops.OpOverload) else func
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        return False
    return packet._qualified_op_name.partition("::")[0] not in ("aten", "prims")


def _narrowed(values: Any, own: torch.dtype) -> Any:
    def narrower(value: Any) -> Any:
        return value.to(own) if isinstance(value, Tensor) and value.dtype == torch.float64 else value

    return tree_map(narrower, values)


def _wider(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return _WIDER.get(value, value)
    if isinstance(value, Tensor) and value.dtype in _WIDER:
        return value.to(_WIDER[value.dtype])
    return value


def _own_dtype(model: nn.Module) -> torch.dtype:
    tensors = (*model.parameters(), *model.buffers())
    return next(
        (tensor.dtype for tensor in tensors if tensor.dtype in _WIDER and not tensor.is_complex()), torch.float32
    )


def in_float64(model: nn.Module) -> nn.Module:
    """Return a copy whose parameters, buffers and other tensors are float64; ties stay ties. Scripts keep their dtype.

    The copy holds the weights in float64 alone, so it costs twice the model, not three times.
    """
    memo: dict[int, Any] = {}
    for module in model.modules():
        for tensor in (*module._parameters.values(), *module._buffers.values(), *vars(module).values()):
            if isinstance(tensor, nn.Parameter):
                memo[id(tensor)] = nn.Parameter(_wider(tensor.detach()), requires_grad=False)
            elif isinstance(tensor, Tensor):
                memo[id(tensor)] = _wider(tensor.detach())
    wide = copy.deepcopy(model, memo)
    for path, parent in [*wide.named_modules()]:
        for name, child in [*parent._modules.items()] if not isinstance(parent, torch.jit.ScriptModule) else ():
            if isinstance(child, torch.jit.ScriptModule):
                full = f"{path}.{name}".lstrip(".")
                parent._modules[name] = _InItsOwnDtype(child, full, _own_dtype(child))
    return wide


def run_in_float64(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], narrow: dict[str, None] | None = None
) -> Any:
    """Return the outputs of a model of `in_float64` for the inputs, computed in float64.

    `narrow` is given the names of scripts and operators that take other dtypes only: they compute as ever.
    """
    args, kwargs = copied((args, kwargs), _wider)
    found: dict[str, None] = {} if narrow is None else narrow
    found |= {module.path: None for module in model.modules() if isinstance(module, _InItsOwnDtype)}
    with _Widened(found):
        return run(model, args, kwargs)
