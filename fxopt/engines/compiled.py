"""The module of a region of a graph that `torch.compile` computes."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import warnings
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule
from torch.utils._pytree import tree_flatten

from fxopt.errors import warn
from fxopt.graph.copying import copied_graph
from fxopt.graph.hooks import HOOKS

INDUCTOR = "inductor"
_PLAIN = (Tensor, nn.Parameter, int, float, bool, str, type(None), torch.dtype, torch.device)
"""The kinds of inputs that a region is compiled for. For any other, as a proxy of a tracer, the body is computed."""
_MOST_COPIES = 2
"""So many compiled copies of a region are held, for different numbers of threads."""
_COMPILING = threading.RLock()  # the settings of Inductor belong to the process


def compiler_of(backend: str) -> str:
    """Return the C++ compiler that a backend of `torch.compile` needs; empty if there is none on this machine.

    Inductor takes the one that the environment variable ``CXX`` names, else ``g++``, on macOS ``clang++``. A backend
    other than Inductor needs none, and is named itself.
    """
    if backend != INDUCTOR:
        return backend
    usual = "clang++" if sys.platform == "darwin" else "g++"
    name = (os.environ.get("CXX", usual).split() or [""])[0]
    return name if name and shutil.which(name) else ""


@dataclass(eq=False)
class _Compiled:
    """The compiled body, for the weights as they were."""

    call: Callable[..., Any]
    weights: Hashable
    sources: list[Tensor]
    """They share memory with the weights as they were, so that its address is not given to others."""
    known: set[Hashable] = field(default_factory=set)
    """The kinds of inputs that it was compiled for."""


class CompiledRegion(nn.Module):
    """Compute a graph module by `torch.compile`, with its weights frozen; node by node where somebody watches.

    Args:
        body: the nodes of the region; its parameters are those of the model.
        backend: of `torch.compile`.
    """

    body: GraphModule

    def __init__(self, body: GraphModule, backend: str = INDUCTOR) -> None:
        super().__init__()
        self.body = body
        self.backend = backend
        self.training = False
        self._compiled: dict[int, _Compiled] = {}
        """By the number of threads."""
        self._parts: tuple[nn.Module, ...] | None = None
        """The body and all modules in it."""
        self._failed: frozenset[Hashable] = frozenset()
        """The kinds of inputs for which the compiler failed."""

    def forward(self, *inputs: Any) -> Any:
        """Return the outputs of the region for its inputs, in the order of its placeholders."""
        if torch.compiler.is_compiling() or not self._may_compile(inputs):
            return self.body(*inputs)
        kinds = _kinds_of(inputs)
        if kinds in self._failed:
            return self.body(*inputs)
        threads, weights = torch.get_num_threads(), self._weights()
        compiled = self._compiled.get(threads)
        if compiled is None or compiled.weights != weights:
            with _COMPILING, _quiet():
                call = torch.compile(_fresh(self.body), backend=self.backend)
            compiled = _Compiled(call, weights, [one.detach() for one in self._tensors()])
            kept = [(n, one) for n, one in self._compiled.items() if n != threads and one.weights == weights]
            self._compiled = dict([*kept[1 - _MOST_COPIES :], (threads, compiled)])
        return compiled.call(*inputs) if kinds in compiled.known else self._first_call(compiled, kinds, inputs)

    def _first_call(self, compiled: _Compiled, kinds: Hashable, inputs: tuple[Any, ...]) -> Any:
        """Compile for inputs of new kinds, and call. Where that fails, compute the body for them from now on."""
        try:
            with compiling(torch.get_num_threads()):
                found = compiled.call(*inputs)
        except Exception as error:  # noqa: BLE001 - of the compiler, or of the body, whose own call raises it again
            found = self.body(*inputs)
            self._failed |= {kinds}
            cause = getattr(error, "inner_exception", error)  # Dynamo wraps what the backend raised
            reason = str(cause).strip().partition("\n")[0] or "no reason given"
            warn(
                f"torch.compile failed on a region of {len(self.body.graph.nodes)} nodes, which is computed node by "
                f"node for such inputs from now on: {type(cause).__name__}: {reason}"
            )
            return found
        compiled.known.add(kinds)
        return found

    def _may_compile(self, inputs: tuple[Any, ...]) -> bool:
        """Check that nobody watches the calls of torch, and neither gradients nor training are asked for."""
        given = _leaves_of(inputs)
        tensors = [one for one in given if isinstance(one, Tensor)]
        return (
            not (torch.is_grad_enabled() and any(one.requires_grad for one in (*self._tensors(), *tensors)))
            and not any(one.training for one in self._modules_inside())
            and not any(getattr(one, table) for one in self._modules_inside() for table in HOOKS)
            and torch._C._len_torch_function_stack() == 0
            and torch._C._len_torch_dispatch_stack() == 0
            and torch._C._functorch.peek_interpreter_stack() is None
            and not torch._C._is_tracing()
            and not torch.is_autocast_enabled("cpu")
            and all(type(one) in _PLAIN for one in given)
            and not any(one.is_inference() for one in self._tensors())
        )

    def _modules_inside(self) -> tuple[nn.Module, ...]:
        if self._parts is None:
            self._parts = tuple(self.body.modules())
        return self._parts

    def _tensors(self) -> list[Tensor]:
        tables = (table for one in self._modules_inside() for table in (one._parameters, one._buffers))
        return [tensor for table in tables for tensor in table.values() if tensor is not None]

    def _weights(self) -> Hashable:
        """Return a value that is another one after each write to a weight that torch counts."""
        return tuple((one.data_ptr(), one._version, one.dtype, one.shape) for one in self._tensors())

    def __getstate__(self) -> dict[str, Any]:
        """Leave the compiled code out of copies and pickles: it follows from the body."""
        return {**self.__dict__, "_compiled": {}, "_parts": None}

    def extra_repr(self) -> str:
        calls = sum(node.op.startswith("call_") for node in self.body.graph.nodes)
        return f"{calls} calls, backend={self.backend}" + (", failed" if self._failed else "")


def _fresh(body: GraphModule) -> GraphModule:
    """Return a copy with code of its own, for which Dynamo counts anew how often it was compiled."""
    fresh = GraphModule(body, copied_graph(body.graph))
    fresh.training = False
    return fresh


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide the warnings of torch on the modules that it imports to compile."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def compiling(threads: int) -> Iterator[None]:
    """Within the block, be the only one that compiles: with frozen weights, and for a number of threads."""
    import torch._inductor.config as config  # only here: it takes a second

    # an option of torch.compile comes too late: Dynamo looks at this one itself
    with _COMPILING, _quiet(), config.patch({"freezing": True, "cpp.threads": threads}):
        yield


def _kinds_of(inputs: tuple[Any, ...]) -> Hashable:
    """Return all that Dynamo compiles anew for: the kinds of the inputs, and the modes of this thread."""
    leaves, shape = tree_flatten(inputs)
    modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
    return (*modes, str(shape), tuple(map(_kind_of, leaves)))


def _kind_of(value: Any) -> Hashable:
    if isinstance(value, Tensor):
        layout = value.dtype, value.shape, value.stride(), value.device
        return *layout, value.requires_grad, value.is_inference()
    return type(value), value


def _leaves_of(inputs: tuple[Any, ...]) -> list[Any]:
    return tree_flatten(inputs)[0]
