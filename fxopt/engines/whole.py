"""A whole model as `torch.compile`, ONNX Runtime or OpenVINO computes it. An engine is imported when it is asked for.

All engines get the model flat: its inputs are tensors by position, and so are its outputs. A call of an engine gives
the tensors among the outputs of the model, in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fxopt.engines.compiled import INDUCTOR, Counted, compiler_of, compiling
from fxopt.engines.flat import Flat, tensors_among
from fxopt.engines.runtimes import RUNTIMES, Runtime, Tensors, exported, missing_of


class InEngine(nn.Module):
    """Compute a model in an engine: it takes the inputs of the model, and returns the tensors among its outputs.

    Args:
        call: takes and returns tensors by position; a module is a child.
        tensors_of: returns the tensors among inputs, in the order in which `call` takes them.
    """

    def __init__(
        self, call: Callable[..., tuple[Tensor, ...]], tensors_of: Callable[[Any], Iterable[Tensor]] = tensors_among
    ) -> None:
        super().__init__()
        self.call = call
        self.tensors_of = tensors_of
        self.training = False

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        return self.call(*self.tensors_of((args, kwargs)))


@dataclass(frozen=True)
class Engine:
    """One that computes a whole model on one thread."""

    name: str
    packages: tuple[str, ...]
    """All that it needs beside torch, as Python imports them."""
    extra: str
    """The optional extra of fxopt that installs them."""
    build: Callable[[Flat, Tensors], Callable[..., Tensors]]
    """Takes the model and example tensors. It raises any exception where the engine cannot have the model."""

    @property
    def missing(self) -> str:
        """The reason why it is not to be had on this machine; empty where it is."""
        if self.build is _inductor and not compiler_of(INDUCTOR):
            return "it needs a C++ compiler, such as g++"
        return missing_of(self.packages, self.extra)


def _inductor(flat: Flat, tensors: Tensors) -> Callable[..., Tensors]:
    backend = Counted()
    with compiling(1):
        call = flat.around(torch.compile(flat.model, backend=backend))
        call(*tensors)
    backend.expect_graphs()
    return call


def _of(runtime: Runtime) -> Engine:
    build = lambda flat, tensors: runtime.load(exported(flat, tensors), 1)  # noqa: E731
    return Engine(runtime.name, runtime.packages, runtime.extra, build)


ENGINES = (Engine("torch.compile", (), "", _inductor), *map(_of, RUNTIMES.values()))
"""Those that one would pick instead of passes."""
