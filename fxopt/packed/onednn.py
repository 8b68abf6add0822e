"""The operators of oneDNN in torch, ``torch.ops.mkldnn``: those that Inductor emits, for inference on a CPU."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor, nn

DTYPES = (torch.float32, torch.bfloat16)
_OPERATORS = (
    "_reorder_linear_weight",
    "_linear_pointwise",
    "_reorder_convolution_weight",
    "_convolution_pointwise",
)
_PLAIN = (Tensor, nn.Parameter)


@functools.cache
def is_available() -> bool:
    """Return whether this build of torch has the operators."""
    return torch.backends.mkldnn.is_available() and all(hasattr(torch.ops.mkldnn, name) for name in _OPERATORS)


@functools.cache
def supports(dtype: torch.dtype) -> bool:
    """Return whether the operators compute in `dtype` on this processor."""
    if not is_available() or dtype not in DTYPES:
        return False
    return dtype == torch.float32 or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def operator(name: str, overload: str = "default") -> Any:
    """Return an operator by its name, for one that `is_available`."""
    return getattr(getattr(torch.ops.mkldnn, name), overload)


def may_compute(x: Any, weight: Tensor, *others: Tensor | None) -> bool:
    """Check that the operators may compute on `x` and `weight` now, and nobody watches the call.

    They have no gradients, no rule for `vmap`, and no fake tensors; `torch.jit.trace` cannot hold a packed weight;
    and a mode, as one that counts FLOPs, knows the functions of torch instead.

    Args:
        others: further tensors that the result depends on.
    """
    return (
        type(x) in _PLAIN
        and supports(weight.dtype)
        and x.dtype is weight.dtype
        and x.is_cpu
        and weight.is_cpu
        and x.layout is torch.strided
        and not weight.is_inference()
        and not (torch.is_grad_enabled() and _trains(x, weight, *others))
        and not torch.is_autocast_enabled("cpu")
        and torch._C._len_torch_dispatch_stack() == 0
        and torch._C._functorch.peek_interpreter_stack() is None
        and not torch._C._is_tracing()
        and x.numel() > 0
    )


def _trains(*tensors: Tensor | None) -> bool:
    return any(tensor is not None and tensor.requires_grad for tensor in tensors)
