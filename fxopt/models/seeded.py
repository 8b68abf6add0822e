"""Random weights of one's own: the same on each call, independent of the draws of other threads.

A model's own initialization draws from the global generator, takes most of the time it takes to build, and leaves batch
norms that do nothing. So a model is built with its draws left out, then filled from a private generator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.overrides import TorchFunctionMode

from fxopt.models.making import FACTORIES, MemoryWatch
from fxopt.process.news import Pace

# by name: transformers puts functions of its own into torch.nn.init while it builds a model
_DRAWS = {
    "normal_", "uniform_", "trunc_normal_", "kaiming_normal_", "kaiming_uniform_", "xavier_normal_",
    "xavier_uniform_", "orthogonal_", "sparse_", "random_", "bernoulli_", "exponential_",
}  # fmt: skip


_DRAWING = {"rand", "randn", "randint", "randperm"}


class _WithoutDraws(TorchFunctionMode):
    """A mode that keeps this thread off the global generator.

    Functions that would fill a tensor with random numbers fill it with one number, and those that make one draw from
    `generator`. The listener to the news may end the building, and so does a lack of memory.
    """

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.generator = generator
        self.pace = Pace("building it")
        self._memory = MemoryWatch()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        self.pace.tell()
        name, kwargs = getattr(func, "__name__", None), kwargs or {}
        if name in _DRAWS:
            # a constant rather than nothing: torch draws a truncated normal again until all of it lies between the
            # bounds
            tensor = args[0] if args else kwargs["tensor"]
            middle = kwargs.get("mean", args[1] if len(args) > 1 else 0.0) if name == "normal_" else 0.0
            with torch.no_grad():
                return tensor.fill_(middle)
        if name in FACTORIES:
            self._memory.check(func, args, kwargs)
        if name in _DRAWING:
            kwargs = {"generator": self.generator, **kwargs}
        return func(*args, **kwargs)


def seeded_model(make: Callable[[], nn.Module], seed: int) -> nn.Module:
    """Return the model of `make`, in eval mode, with weights drawn from a generator seeded with `seed`.

    Matrices and kernels keep the size of their inputs; scales of norms lie around 1, shifts and biases around 0, and
    running statistics differ from those of a fresh batch norm.

    Raises:
        CancelledError: the listener to the news asked for the end.
        ModelError: the memory that is free does not hold its tensors.
    """
    generator = torch.Generator().manual_seed(seed)
    gradients = torch.is_grad_enabled()
    try:
        with _WithoutDraws(generator) as building:
            model = make().eval()
    finally:
        torch.set_grad_enabled(gradients)  # an end within torch's own `no_grad` would leave it off
    filled: set[int] = set()
    with torch.no_grad():
        for module in model.modules():
            for name, parameter in module.named_parameters(recurse=False):
                building.pace.tell()
                if id(parameter) not in filled:
                    _fill(parameter, name, module, generator)
                    filled.add(id(parameter))
            if isinstance(module, _NormBase) and module.running_mean is not None:
                module.running_mean.normal_(0, 0.2, generator=generator)
                module.running_var.uniform_(0.5, 1.5, generator=generator)  # type: ignore[union-attr]
    return model


def _fill(parameter: Tensor, name: str, module: nn.Module, generator: torch.Generator) -> None:
    if parameter.dim() == 0:
        return  # a temperature, a scale: the architecture gives it a value of its own
    if parameter.dim() == 1:
        middle, spread = (1.0, 0.1) if "Norm" in type(module).__name__ and name == "weight" else (0.0, 0.05)
        parameter.normal_(middle, spread, generator=generator)
        return
    fan_in = parameter.numel() // parameter.shape[0]
    if type(module).__name__ == "Conv1D":  # transformers' linear with a weight of (in, out)
        fan_in = parameter.shape[0]
    parameter.normal_(0, fan_in**-0.5, generator=generator)
