"""Work that changes state of the whole process: one at a time, and the state is as it was afterwards.

Building a model of transformers changes for a while state that all threads see: the default dtype, how models tie their
weights, how torch initializes. A capture takes over calls of modules, and the modes and generators of torch. If two ran
at once, each would bring back the other's changes, for good.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from fxopt.errors import warn
from fxopt.process.locks import free_in_forks
from fxopt.process.news import tell

_LOCK = free_in_forks(threading.RLock())
_SECONDS_BETWEEN_LOOKS = 0.1


def _tell_of_waiting() -> None:
    tell("waiting for another model")


_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType, classmethod, staticmethod)
_TAKEN_OVER_IN_TURN = {"__call__", "__getattr__"}
"""Of `nn.Module`: the tracer of torch and `module_calls` patch these in other threads, and bring them back."""


@contextlib.contextmanager
def one_at_a_time(waiting: Callable[[], None] = _tell_of_waiting) -> Iterator[None]:
    """Hold off every other build and capture of this process, and check that this one leaves no trace in it.

    The thread that holds it may enter again. State that a library left changed is brought back, with an `FxoptWarning`
    that names it. `waiting` is called ten times a second while another thread is at work, and may raise to give up, as
    a listener to the news does by itself.
    """
    while not _LOCK.acquire(timeout=_SECONDS_BETWEEN_LOOKS):
        waiting()
    try:
        before = _State()
        try:
            yield
        finally:
            if left := before.bring_back():
                text = f"{', '.join(left)} was left changed for the whole process by a build or capture; it is back"
                warn(text)
    finally:
        _LOCK.release()


class _State:
    """The settings and functions that code of libraries replaces for a while."""

    def __init__(self) -> None:
        self.settings = {name: read() for name, (read, _) in _SETTINGS.items()}
        self.functions = [(owner, _functions_of(owner)) for owner in _patched_owners()]

    def bring_back(self) -> list[str]:
        """Bring back all changed state; return its names."""
        found = []
        for name, (read, write) in _SETTINGS.items():
            if read() != self.settings[name]:
                write(self.settings[name])
                found.append(f"the {name}")
        for owner, functions in self.functions:
            now = vars(owner)
            for name, function in functions.items():
                if now.get(name) is not function and not _is_of_torch_itself(now.get(name), function):
                    setattr(owner, name, function)
                    found.append(f"{owner.__name__}.{name}")
        return found


def _is_of_torch_itself(now: Any, function: Any) -> bool:
    """Return True where torch's compiler replaced `function` for good, which it does once in a process.

    Its first import, which a recording brings about, wraps `torch.manual_seed`. The first function that it compiles
    lets `nn.Module` note when a module was made (``torch._dynamo.mutation_guard``).
    """
    if getattr(now, "__module__", "").startswith("torch._dynamo"):
        return True
    return function is torch.random.manual_seed and getattr(now, "__wrapped__", None) is function


def _default_device() -> torch.device | None:
    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return context.device if context is not None else None


_SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "default device": (_default_device, torch.set_default_device),
    "grad mode": (torch.is_grad_enabled, torch._C._set_grad_enabled),
}


def _patched_owners() -> list[Any]:
    """Return the modules and classes whose functions transformers replaces while it builds: torch's and its own."""
    names = ("torch", "torch.nn.init", "torch.nn.functional", *_modules_of_layers())
    modules = [sys.modules[name] for name in names if name in sys.modules]
    transformers = sys.modules.get("transformers.modeling_utils")
    model = getattr(transformers, "PreTrainedModel", None)
    return [*modules, nn.Module, *([transformers, model] if isinstance(model, type) else [])]


def _modules_of_layers() -> list[str]:
    """Return the modules that import functions of `torch.nn.init` by name."""
    return [name for name in list(sys.modules) if name.startswith("torch.nn.modules.")]


def _functions_of(owner: Any) -> dict[str, Any]:
    passed_over = _TAKEN_OVER_IN_TURN if owner is nn.Module else ()
    return {
        name: value
        for name, value in list(vars(owner).items())
        if isinstance(value, _FUNCTIONS) and name not in passed_over
    }
