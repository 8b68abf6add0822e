"""Leave everything as it was: the model, the random numbers, modes, caches, and torch's own classes."""

from __future__ import annotations

import collections
import contextlib
import functools
import gc
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from fxopt.graph.copying import TABLES
from fxopt.graph.tensor_state import same_bytes
from fxopt.recording.containers import refill
from fxopt.recording.module_state import ObjectState
from fxopt.tracing.preserved_parameters import PreservedParameters
from fxopt.tracing.structure import is_plain_object

REPLAY_SEED = 0
"""The seed of random numbers when graph and model are compared.

A recording starts elsewhere, so that the comparison finds numbers drawn outside of torch that became constants.
"""


@dataclass(eq=False)
class Before:
    """A model as it was: its buffers; and at the end the other traces of its run.

    ``assigned`` are the attributes of modules that it assigned to, ``drawn`` the generators of random
    numbers that it drew from besides torch's.
    """

    buffers: list[torch.Tensor]
    assigned: list[str] = field(default_factory=list)
    drawn: list[str] = field(default_factory=list)


@contextlib.contextmanager
def preserved(model: nn.Module, seed: int | None = None) -> Iterator[Before]:
    """Bring back parameters, buffers, attributes and tables of all modules, and the global modes and generators.

    With a `seed`, all generators start from it.
    """
    before = Before([buffer for buffer in model.buffers() if buffer.device.type != "meta"])
    values = [
        (buffer.detach().clone().requires_grad_(buffer.requires_grad), _version(buffer)) for buffer in before.buffers
    ]
    modules = [_ModuleState(module) for module in model.modules()]
    contents = _contents_of(model)
    parameters = PreservedParameters(model)
    with _preserved_modes(), _preserved_generators(seed, before.drawn):
        try:
            yield before
        finally:
            for state in modules:
                before.assigned += [f"{state.kind.__name__}.{name}" for name in state.bring_back()]
            for container, content in contents:
                _refill(container, content)
            with torch.no_grad():
                for buffer, (value, version) in zip(before.buffers, values):
                    if _version(buffer) != version or not has_same_values(buffer, value):
                        with torch.inference_mode(buffer.is_inference()):
                            buffer.copy_(value)
                    if buffer.requires_grad != value.requires_grad:
                        buffer.detach_()  # the values written into it need a gradient
            parameters.bring_back()


def _version(buffer: torch.Tensor) -> int:
    """Return the count of writes; 0 for a buffer made under `inference_mode`, which counts none."""
    return 0 if buffer.is_inference() else buffer._version


@contextlib.contextmanager
def _preserved_modes() -> Iterator[None]:
    grad, dtype, device = torch.is_grad_enabled(), torch.get_default_dtype(), _default_device()
    autocast = [(kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in _AUTOCAST_DEVICES]
    nesting = _autocast_nesting()
    try:
        yield
    finally:
        torch.set_grad_enabled(grad)
        if torch.get_default_dtype() != dtype:
            torch.set_default_dtype(dtype)
        if _default_device() != device:
            torch.set_default_device(device)
        # a graph that raises within an autocast region stays in it
        for kind, enabled, fast in autocast:
            torch.set_autocast_enabled(kind, enabled)
            torch.set_autocast_dtype(kind, fast)
        while _autocast_nesting() > nesting:
            torch.autocast_decrement_nesting()


def has_same_values(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors of one layout hold the same bits; for sparse ones torch has no such operation."""
    return all(map(same_bytes, _strided_parts(one), _strided_parts(other)))


def _strided_parts(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    if tensor.is_nested:
        return tensor.unbind()
    if tensor.layout is torch.strided:
        return (tensor,)
    if tensor.layout is torch.sparse_coo:
        return tensor._indices(), tensor._values()
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return tensor.ccol_indices(), tensor.row_indices(), tensor.values()
    return (tensor.to_dense(),)


_AUTOCAST_DEVICES = ("cpu", "cuda")


def _default_device() -> torch.device | None:
    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return context.device if context is not None else None


def _autocast_nesting() -> int:
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


@contextlib.contextmanager
def _preserved_generators(seed: int | None, drawn: list[str]) -> Iterator[None]:
    torch_state = torch.random.get_rng_state()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    before = _states_outside_torch()
    if seed is not None:
        torch.manual_seed(seed)
        random.seed(seed)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(seed)
    start = _states_outside_torch()
    try:
        yield
    finally:
        now = _states_outside_torch()
        drawn += [name for name, (state, _) in start.items() if state != now[name][0]]
        for _, bring_back in before.values():
            bring_back()
        torch.random.set_rng_state(torch_state)
        if cuda:
            torch.cuda.set_rng_state_all(cuda)


def _states_outside_torch() -> dict[str, tuple[Any, Callable[[], None]]]:
    """Return the state of each generator as a value, and a function that restores it."""
    python = random.getstate()
    states: dict[str, tuple[Any, Callable[[], None]]] = {"random": (python, lambda: random.setstate(python))}
    if "numpy" in sys.modules:
        generator: Any = sys.modules["numpy"].random
        state = generator.get_state()
        states["numpy.random"] = ((state[1].tobytes(), state[2]), lambda: generator.set_state(state))
    return states


class _ModuleState:
    """The class, attributes, parameters and buffers of a module."""

    def __init__(self, module: nn.Module) -> None:
        self.module, self.kind = module, type(module)
        self.state = ObjectState.of(module)
        self.tensors = {**module._parameters, **module._buffers}

    def bring_back(self) -> list[str]:
        """Restore the module; return the names of the attributes that were assigned."""
        module, before = self.module, self.state.attributes
        if type(module) is not self.kind:
            module.__class__ = self.kind  # a lazy layer becomes another when it first runs
        now = dict(module.__dict__)
        assigned = [name for name in now if name not in before]
        assigned += [name for name, value in before.items() if now.get(name, assigned) is not value]
        tables = {**now, **before}
        tensors = {**tables.get("_parameters", {}), **tables.get("_buffers", {})}
        assigned += [name for name, value in self.tensors.items() if tensors.get(name) is not value]
        self.state.restore()
        return assigned


_CONTAINERS = (list, dict, collections.OrderedDict, set)
_PLAIN = {type(None), bool, int, float, str, torch.Tensor, nn.Parameter, torch.dtype}
"""Types of values without contents: most of the values that are looked at."""


def _contents_of(model: nn.Module) -> list[tuple[Any, Any]]:
    """Return the containers, objects and generators that a run of `model` could write to, and their contents."""
    found: dict[int, tuple[Any, Any]] = {}

    def note(value: Any, depth: int) -> None:
        kind = type(value)
        if kind in _PLAIN or depth > 3 or id(value) in found:
            return
        if kind in _CONTAINERS:
            found[id(value)] = value, value.copy() if value else ()
            for part in value.values() if isinstance(value, dict) else value:
                note(part, depth + 1)
        elif kind is torch.Generator:
            found[id(value)] = value, value.get_state()
        elif is_plain_object(value):
            note(value.__dict__, depth + 1)

    for module in model.modules():
        for name, value in module.__dict__.items():
            note(value, 3 if name in TABLES else 0)
    for value in _values_in_code(model):
        if type(value) in _CONTAINERS:
            note(value, 2)
    return list(found.values())


def _values_in_code(model: nn.Module) -> Iterator[Any]:
    """Yield the values in the classes of `model` and the files that define them: caches, say."""
    kinds = {base for module in model.modules() for base in type(module).__mro__}
    kinds = {kind for kind in kinds if kind.__module__.partition(".")[0] not in ("torch", "builtins")}
    for kind in kinds:
        yield from list(vars(kind).values())
    for name in {kind.__module__ for kind in kinds}:
        yield from list(vars(sys.modules[name]).values()) if name in sys.modules else ()


def _refill(container: Any, contents: Any) -> None:
    """Restore the contents of a container or generator."""
    if isinstance(container, torch.Generator):
        container.set_state(contents)
    else:
        refill(container, contents)


def forget_fake_tensors() -> None:
    """Empty the `functools.lru_cache`s of the model's code that kept a fake tensor of the recording.

    Left there, it would break the next ordinary run of the model.
    """
    kind = functools._lru_cache_wrapper
    for cache in gc.get_referrers(kind):  # an instance refers to its class; all objects would take three times as long
        if type(cache) is kind and cache.cache_info().currsize:
            if (cache.__module__ or "").partition(".")[0] in ("torch", "sympy"):
                continue
            if _holds_fake_tensor(cache, 4):
                cache.cache_clear()


def _holds_fake_tensor(holder: Any, depth: int) -> bool:
    for part in gc.get_referents(holder):
        if isinstance(part, FakeTensor):
            return True
        if depth and isinstance(part, (dict, list, tuple)) and _holds_fake_tensor(part, depth - 1):
            return True
    return False
