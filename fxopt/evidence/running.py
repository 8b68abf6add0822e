"""Runs a model for evidence, and leaves the model, the inputs and the random generator as they were."""

from __future__ import annotations

import copy
import dataclasses
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import keystr, tree_flatten_with_path

from fxopt.engines import EngineRegion
from fxopt.errors import FxoptError
from fxopt.evidence.difference import same_bits
from fxopt.process.defaults import with_steady_defaults
from fxopt.process.locks import free_in_forks
from fxopt.tracing.preserved_parameters import PreservedParameters

_SEED = 0

# the global generator belongs to the process: of two threads, one would put back what the other had seeded
_SEEDING = free_in_forks(threading.RLock())


class EvidenceError(FxoptError, RuntimeError):
    """A failed measurement: the original itself fails, or there is nothing to run."""


class RunStoppedError(EvidenceError):
    """A run that was stopped, because its result is needed no longer."""


_WANTED: ContextVar[Callable[[], bool] | None] = ContextVar("wanted", default=None)


@contextmanager
def stopping_unless(wanted: Callable[[], bool]) -> Iterator[None]:
    """Within the block, in this thread, end every `run` between two calls of torch once it is not `wanted`.

    The calls themselves are as ever, so results have the same bits. A single call comes to its end.
    """
    token = _WANTED.set(wanted)
    try:
        yield
    finally:
        _WANTED.reset(token)


class Stopping(TorchFunctionMode):
    """Raises a `RunStoppedError` at a call of torch once the run is not `wanted`.

    It stands around a run alone; the restoration of the model afterwards is outside.
    """

    def __init__(self, wanted: Callable[[], bool]) -> None:
        super().__init__()
        self._wanted = wanted

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not self._wanted():
            raise RunStoppedError("the run was stopped: nobody waits for it any more")
        return func(*args, **(kwargs or {}))


def stopping(model: nn.Module, wanted: Callable[[], bool]) -> AbstractContextManager[object]:
    """Return the context in which a run of `model` is stopped once it is not `wanted`.

    A compiled model comes to its end: Dynamo traces through a mode that is active at a call, and from then on calls the
    model uncompiled.
    """
    return nullcontext() if any(map(_is_compiled, model.modules())) else Stopping(wanted)


def _is_compiled(module: nn.Module) -> bool:
    """Check that `module` is of `torch.compile` or compiled in place by `Module.compile`, or a region in an engine."""
    dynamo = sys.modules.get("torch._dynamo.eval_frame")  # imported where anything was compiled
    compiled_in_place = getattr(module, "_compiled_call_impl", None) is not None
    if isinstance(module, EngineRegion):
        return True
    return compiled_in_place or (dynamo is not None and isinstance(module, dynamo.OptimizedModule))


def leaves_of(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the tensors and other leaves of an output or input, with their paths.

    Looks into lists, tuples, dicts, dataclasses, transformers' outputs and every other registered type.

    >>> [path for path, _ in leaves_of({"logits": 1, "states": (2, [3])})]
    ['logits', 'states[0]', 'states[1][0]']
    """
    children: list[tuple[str, Any]]
    if isinstance(value, Tensor):
        children = []
    elif isinstance(value, Mapping):
        children = [(_name(path, key), child) for key, child in value.items()]
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        children = [(_name(path, name), getattr(value, name)) for name in names]
    else:
        found, _ = tree_flatten_with_path(value, is_leaf=lambda inner: inner is not value)
        children = [((path + keystr(key)).removeprefix("."), child) for key, child in found if child is not value]
        if not children and not (isinstance(value, list | tuple) and not value):
            yield path, value
    if isinstance(value, Tensor):
        yield path, value
    for name, child in children:
        yield from leaves_of(child, name)


def _name(path: str, key: Any) -> str:
    if isinstance(key, str) and key.isidentifier():
        return f"{path}.{key}" if path else key
    return f"{path}[{key!r}]"


def copied(value: Any, change: Callable[[Tensor], Tensor] = Tensor.clone) -> Any:
    """Return a deep copy of inputs, in which `change` makes each tensor.

    They are no tensors of inference mode, as inputs seldom are: an engine would be set up anew for these.
    """
    with torch.inference_mode(False), torch.no_grad():
        memo = {id(leaf): change(leaf.detach()) for _, leaf in leaves_of(value) if isinstance(leaf, Tensor)}
        return copy.deepcopy(value, memo)


@contextmanager
def left_as_it_was(model: nn.Module) -> Iterator[None]:
    """Bring back the tensors that a run changes: buffers (batch counts, running means, caches), and parameters."""
    parameters = PreservedParameters(model)
    held = [
        (module, name, buffer, buffer.clone())
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    try:
        yield
    finally:
        for module, name, buffer, saved in held:
            if module._buffers.get(name) is not buffer:
                module._buffers[name] = buffer
            if not same_bits(buffer, saved):
                with torch.inference_mode(buffer.is_inference()), torch.no_grad():
                    buffer.copy_(saved)
        parameters.bring_back()


def run(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the model's outputs for copies of the inputs; random draws are the same in each run."""
    return with_steady_defaults(lambda: _run(model, args, kwargs))


def _run(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    args, kwargs = copied((args, kwargs))
    devices = {tensor.device for tensor in model.parameters() if tensor.is_cuda}
    with _SEEDING, torch.random.fork_rng(devices=list(devices)), torch.no_grad(), left_as_it_was(model):
        torch.manual_seed(_SEED)
        wanted = _WANTED.get()
        with stopping(model, wanted) if wanted is not None else nullcontext():
            return model(*args, **kwargs)


def in_order(gm: GraphModule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Return the inputs in the order of the placeholders, with defaults for missing ones."""
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    ordered = list(args)
    for node in placeholders[len(args) :]:
        name = str(node.target)
        ordered.append(kwargs[name] if name in kwargs else next(iter(node.args), None))
    return ordered
