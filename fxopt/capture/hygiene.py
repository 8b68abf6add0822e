"""Leave everything as it was: the model, the random numbers, modes, caches, and torch's own classes."""

from __future__ import annotations

import collections
import contextlib
import functools
import gc
import random
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

ONE_AT_A_TIME = threading.RLock()
"""A recording patches `nn.Module.__call__` for its thread; two at once would take each other's patch for it."""

_MODULE_TABLES = ("_parameters", "_buffers", "_modules")


@dataclass(eq=False)
class Before:
    """A model as it was: its buffers, and at the end the attributes that its run assigned to."""

    buffers: list[torch.Tensor]
    assigned: list[str] = field(default_factory=list)


@contextlib.contextmanager
def preserved(model: nn.Module) -> Iterator[Before]:
    """Bring back buffers, attributes and tables of all modules, and the global modes and generators."""
    before = Before([buffer for buffer in model.buffers() if buffer.device.type != "meta"])
    values = [(buffer.detach().clone(), buffer._version) for buffer in before.buffers]
    attributes = [(module, _snapshot(module)) for module in model.modules()]
    with _preserved_globals():
        try:
            yield before
        finally:
            for module, snapshot in attributes:
                before.assigned += [f"{type(module).__name__}.{name}" for name in _restore(module, snapshot)]
            with torch.no_grad():
                for buffer, (value, version) in zip(before.buffers, values):
                    if buffer._version != version or not torch.equal(buffer, value):
                        buffer.copy_(value)


@contextlib.contextmanager
def _preserved_globals() -> Iterator[None]:
    grad, dtype = torch.is_grad_enabled(), torch.get_default_dtype()
    python, torch_state = random.getstate(), torch.random.get_rng_state()
    numpy = sys.modules.get("numpy")
    numpy_state = numpy.random.get_state() if numpy is not None else None
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    try:
        yield
    finally:
        torch.set_grad_enabled(grad)
        if torch.get_default_dtype() != dtype:
            torch.set_default_dtype(dtype)
        random.setstate(python)
        torch.random.set_rng_state(torch_state)
        if numpy is not None:
            numpy.random.set_state(numpy_state)
        if cuda:
            torch.cuda.set_rng_state_all(cuda)


_Snapshot = tuple[dict[str, Any], list[tuple[Any, Any]]]


def _snapshot(module: nn.Module) -> _Snapshot:
    """The attributes of a module, and the contents of the containers among them."""
    containers: list[tuple[Any, Any]] = []

    def note(value: Any, depth: int) -> None:
        if type(value) not in (list, dict, collections.OrderedDict, set) or depth > 3:
            return
        containers.append((value, value.copy()))
        for part in value.values() if isinstance(value, dict) else value:
            note(part, depth + 1)

    for name, value in module.__dict__.items():
        note(value, 3 if name in _MODULE_TABLES else 0)
    return dict(module.__dict__), containers


def _restore(module: nn.Module, snapshot: _Snapshot) -> list[str]:
    """Bring back what the snapshot has; the names of attributes and buffers that were assigned to."""
    attributes, containers = snapshot
    added = [name for name in module.__dict__ if name not in attributes]
    changed = [name for name, value in attributes.items() if module.__dict__.get(name, added) is not value]
    for name in added:
        del module.__dict__[name]
    for name in changed:
        module.__dict__[name] = attributes[name]
    for container, contents in containers:
        if container is module._buffers or container is module._parameters:
            changed += [name for name, value in contents.items() if container.get(name) is not value]
        _refill(container, contents)
    return added + changed


def _refill(container: Any, contents: Any) -> None:
    if isinstance(container, dict):
        if not _same_items(container, contents):
            container.clear()
            container.update(contents)
    elif isinstance(container, list):
        if len(container) != len(contents) or any(a is not b for a, b in zip(container, contents)):
            container[:] = contents
    elif container != contents:
        container.clear()
        container.update(contents)


def _same_items(one: dict[Any, Any], other: dict[Any, Any]) -> bool:
    if len(one) != len(other):
        return False
    return all(a is b and one[a] is other[b] for a, b in zip(one, other))


def forget_fake_tensors() -> None:
    """Empty the `functools.lru_cache`s of the model's code that kept a fake tensor of the recording.

    Left there, it would break the next ordinary run of the model.
    """
    for cache in gc.get_objects():
        if type(cache) is functools._lru_cache_wrapper and cache.cache_info().currsize:
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


class _InThread:
    """True in the thread that made it, false in all others; takes the place of a bool."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()

    def __bool__(self) -> bool:
        return threading.get_ident() == self.thread

    def __or__(self, other: Any) -> Any:
        return bool(self) | other

    def __and__(self, other: Any) -> Any:
        return bool(self) & other

    def __eq__(self, other: object) -> bool:
        return bool(self) == other

    __ror__, __rand__ = __or__, __and__
    __hash__ = None  # type: ignore[assignment]


@contextlib.contextmanager
def exporting() -> Iterator[None]:
    """Make ``torch.compiler.is_exporting()`` true in this thread.

    Models then keep to what does not depend on data: transformers always builds its masks.
    """
    compiler: Any = torch.compiler
    flags = compiler._is_compiling_flag, compiler._is_exporting_flag
    compiler._is_compiling_flag = compiler._is_exporting_flag = _InThread()
    try:
        yield
    finally:
        compiler._is_compiling_flag, compiler._is_exporting_flag = flags


MODULE_CALL = nn.Module.__call__


@contextlib.contextmanager
def module_calls(call: Callable[..., Any]) -> Iterator[None]:
    """Send the module calls of this thread through ``call(module, args, kwargs)``."""
    thread = threading.get_ident()
    kept = nn.Module.__call__

    def patched(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != thread:
            return kept(module, *args, **kwargs)
        return call(module, args, kwargs)

    nn.Module.__call__ = patched  # type: ignore[method-assign]
    try:
        yield
    finally:
        nn.Module.__call__ = kept  # type: ignore[method-assign]


@contextlib.contextmanager
def autocast_regions(enter: Callable[[Any], None], leave: Callable[[Any], None]) -> Iterator[None]:
    """Tell of the autocast regions that this thread enters and leaves: function modes do not see them."""
    thread = threading.get_ident()
    kind: Any = torch.autocast
    kept_enter, kept_exit = kind.__enter__, kind.__exit__

    def entering(region: Any) -> Any:
        result = kept_enter(region)
        if threading.get_ident() == thread:
            enter(region)
        return result

    def leaving(region: Any, *error: Any) -> Any:
        if threading.get_ident() == thread:
            leave(region)
        return kept_exit(region, *error)

    kind.__enter__, kind.__exit__ = entering, leaving
    try:
        yield
    finally:
        kind.__enter__, kind.__exit__ = kept_enter, kept_exit
