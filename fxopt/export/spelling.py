"""Modules of torch.nn as the calls that build them, each proven by building it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from fxopt.edits import Probe
from fxopt.graph.conditions import Unmet
from fxopt.graph.hooks import module_hook_condition
from fxopt.packed.layer import PackedLayer
from fxopt.passes.packing import PASS_OF

_NEVER = {"device", "dtype"}
_TABLES = {"_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "training"}
_PRESENCE = {"bias": ("bias", "in_proj_bias"), "add_bias_kv": ("bias_k",)}
"""Arguments that say whether a parameter is there, by the names that it may have."""


class UnspelledError(Exception):
    """A module that cannot be written as a call of a class of torch.nn; the message says why."""


def spelled(module: nn.Module) -> str:
    """Return the call that builds a module like this one, up to its tensors and mode.

    >>> spelled(nn.Linear(2, 4, bias=False)), spelled(nn.GELU("tanh"))
    ('nn.Linear(2, 4, bias=False)', "nn.GELU(approximate='tanh')")

    Raises:
        UnspelledError: there is no such call; the message says why.
    """
    kind = type(module)
    if kind is Probe:
        return "nn.Identity()"
    if isinstance(module, PackedLayer):
        raise UnspelledError(why_packed_stays(module))
    if getattr(nn, kind.__name__, None) is not kind:
        raise UnspelledError(f"{kind.__module__}.{kind.__qualname__} is a class outside of torch.nn")
    for part in module.modules():
        _check(part)
    arguments = _arguments(module)
    text = f"nn.{kind.__name__}({', '.join(_written(arguments, kind))})"
    try:
        with torch.device("meta"):
            twin = kind(**arguments)
    except Exception as error:  # noqa: BLE001 - a constructor may refuse in any way
        raise UnspelledError(f"{text} cannot be built: {type(error).__name__}: {error}") from None
    difference = next(_differences(module, twin, kind.__name__), None)
    if difference is not None:
        raise UnspelledError(f"{text} builds another module: {difference}")
    return text


def why_packed_stays(layer: PackedLayer) -> str:
    """Tell of a packed layer why it is not exported, and the remedy."""
    return f"its code is fxopt's; turn {PASS_OF[type(layer)]} off, and export again"


def _check(module: nn.Module) -> None:
    """Check that nothing was put on a module that a new one would lack."""
    if "forward" in vars(module):
        raise UnspelledError("its forward was replaced")
    hooks = module_hook_condition(module, "it")
    if isinstance(hooks, Unmet):
        raise UnspelledError(f"{hooks.reason} ({hooks.remedy})")
    for tensor in (*module._parameters.values(), *module._buffers.values()):
        if tensor is not None and is_lazy(tensor):
            raise UnspelledError("its parameters are uninitialized; run the model once first")


def _arguments(module: nn.Module) -> dict[str, Any]:
    """Return the arguments that would build a module like this one, by name, as its attributes hold them."""
    kind = type(module)
    if kind.__init__ is nn.Module.__init__ or kind is nn.Identity:
        return {}
    if isinstance(module, nn.RNNBase):
        return {name: getattr(module, name) for name in _rnn_arguments(kind)}
    found: dict[str, Any] = {}
    for name, parameter in inspect.signature(kind).parameters.items():
        if name.startswith("_") or name in _NEVER:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise UnspelledError(f"{kind.__name__} takes any number of arguments")
        places = [each for each in _PRESENCE.get(name, ()) if each in module._parameters]
        if places and not isinstance(getattr(module, name, None), bool):
            found[name] = module._parameters[places[0]] is not None
        elif hasattr(module, name):
            found[name] = getattr(module, name)
        elif parameter.default is parameter.empty:
            raise UnspelledError(f"{kind.__name__} needs {name}, which the module does not hold")
    return found


def _rnn_arguments(kind: type[nn.Module]) -> tuple[str, ...]:
    more = {nn.LSTM: ("proj_size",), nn.RNN: ("nonlinearity",)}.get(kind, ())
    return ("input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional", *more)


def _written(arguments: dict[str, Any], kind: type[nn.Module]) -> Iterator[str]:
    """Yield the arguments as Python; those that have their default are left out."""
    parameters = inspect.signature(kind).parameters
    for name, value in arguments.items():
        parameter = parameters.get(name)
        if parameter is None or parameter.default is not parameter.empty:
            if parameter is None or not _same(parameter.default, value):
                yield f"{name}={text_of(value)}"
        else:
            yield text_of(value)


def text_of(value: Any) -> str:
    """Return a constant as Python source.

    Raises:
        UnspelledError: it is none.
    """
    if isinstance(value, torch.Size):
        return text_of(tuple(value))
    if type(value) in (bool, int, str, type(None)):
        return repr(value)
    if type(value) is float:
        return repr(value) if value - value == 0 else f"float({str(value)!r})"
    if isinstance(value, torch.dtype):
        return str(value)
    if type(value) in (tuple, list):
        parts = ", ".join(map(text_of, value))
        return f"[{parts}]" if type(value) is list else f"({parts},)" if len(value) == 1 else f"({parts})"
    raise UnspelledError(f"an argument is a {type(value).__name__}, which Python source does not hold")


def _differences(module: nn.Module, twin: nn.Module, path: str) -> Iterator[str]:
    """Yield the differences of two modules in all but the numbers, strides and dtypes of tensors, and the mode."""
    if type(module) is not type(twin):
        yield f"{path} is a {type(module).__name__} and not a {type(twin).__name__}"
        return
    for table in ("_parameters", "_buffers"):
        mine, other = _shapes(getattr(module, table)), _shapes(getattr(twin, table))
        if list(mine.items()) != list(other.items()):
            yield f"{path} has {table[1:]} {mine}, and a new one {other}"
    if module._non_persistent_buffers_set != twin._non_persistent_buffers_set:
        yield f"{path} has other buffers outside its state than a new one"
    if list(module._modules) != list(twin._modules):
        yield f"{path} has other modules inside than a new one"
        return
    for name, value in vars(twin).items():
        if name not in _TABLES and not name.endswith("_hooks") and not _same(vars(module).get(name), value):
            yield f"{path}.{name} is {vars(module).get(name)!r}, and {value!r} in a new one"
    for name, inner in twin._modules.items():
        mine_inner = module._modules[name]
        if (inner is None) != (mine_inner is None):
            yield f"{path}.{name} is there in one only"
        elif inner is not None and mine_inner is not None:
            yield from _differences(mine_inner, inner, f"{path}.{name}")


def _shapes(table: dict[str, Any]) -> dict[str, Any]:
    return {name: None if tensor is None else tuple(tensor.shape) for name, tensor in table.items()}


def _same(one: Any, other: Any) -> bool:
    """Check that two attributes are the same; tensors, functions and the like are compared by their kind."""
    if type(one) is not type(other):
        return isinstance(one, tuple | list) and isinstance(other, tuple | list) and list(one) == list(other)
    if isinstance(one, torch.Tensor) or (isinstance(one, list) and any(isinstance(x, torch.Tensor) for x in one)):
        return True
    if isinstance(one, dict | set) or (isinstance(one, list) and any(callable(x) for x in one)):
        return True
    return bool(one == other) or one is other or (one != one and other != other)
