"""One operation, many spellings: the canonical operation of a node, for any form of its call.

torch makes ``torch.mul``, ``Tensor.mul`` and ``torch.ops.aten.mul`` from one entry of one list, so those three are
equal for every operator, and the schema of the ATen operator names their arguments. `fxopt.graph.operator_names` has
second names and Python's operators, `fxopt.graph.module_table` the modules. The table here holds further equal
spellings: the Python functions of `torch.nn.functional`.

In-place spellings (``add_``, ``nn.ReLU(inplace=True)``, ``out=``) are operations of their own or none at all.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.fx import Node

from fxopt.graph.conditions import decide
from fxopt.graph.guards import unaltered_conditions
from fxopt.graph.module_table import WITH_WEIGHTS, WITHOUT_WEIGHTS
from fxopt.graph.nodes import is_tensor
from fxopt.graph.operator_names import PYTHON, SECOND_NAMES
from fxopt.graph.operator_table import COMMUTATIVE, DROPOUTS
from fxopt.rules.overloads import ARGUMENTS, UNSEEN, Kind, overloads

_SECOND_NAMES = {
    **SECOND_NAMES,
    "split_with_sizes": "split",
    "reshape": "view",
}
"""Those of torch, and two for the same numbers: ``split`` by a list, and ``view`` wherever there is a view."""

_FUNCTIONS: dict[Any, str] = {
    F.relu: "relu",
    F.relu6: "relu6",
    F.silu: "silu",
    F.mish: "mish",
    F.elu: "elu",
    F.selu: "selu",
    F.celu: "celu",
    F.leaky_relu: "leaky_relu",
    F.hardtanh: "hardtanh",
    F.hardswish: "hardswish",
    F.hardsigmoid: "hardsigmoid",
    F.sigmoid: "sigmoid",
    F.tanh: "tanh",
    F.softmax: "softmax",
    F.log_softmax: "log_softmax",
    F.dropout: "dropout",
    F.layer_norm: "layer_norm",
    F.group_norm: "group_norm",
    torch.split: "split",
}
"""Written in Python, so their signatures are Python's."""

_COMMUTATIVE = {**dict.fromkeys(COMMUTATIVE, ("input", "other")), "transpose": ("dim0", "dim1")}

_PYTHON: dict[Any, str] = dict(PYTHON)

DIMENSIONS = {"dim", "dim0", "dim1", "start_dim", "end_dim"}
"""Arguments that count from the end where they are negative."""


@dataclass(frozen=True, eq=False)  # equality would compare nodes
class Spelling:
    """The canonical operation of a node, and its arguments by name."""

    operation: Any
    """The name of the operator in ATen, or the target of the node if torch has no such operator."""
    arguments: Mapping[str, Any]
    defaults: Mapping[str, Any]
    needs_tensor: bool = False
    """True for a call of one of Python's operators, which compute with sizes and numbers too."""

    @property
    def name(self) -> str:
        return self.operation if isinstance(self.operation, str) else getattr(self.operation, "__name__", "call")

    @functools.cached_property
    def commutative(self) -> tuple[str, str] | None:
        """Return the two arguments that commute."""
        pair = _COMMUTATIVE.get(self.operation) if isinstance(self.operation, str) else None
        if pair is None or not set(pair) <= self.arguments.keys():
            return None
        rest = {key: value for key, value in self.arguments.items() if key not in (*pair, "input")}
        return pair if all(same_literal(value, self.defaults.get(key)) for key, value in rest.items()) else None


def spelled(node: Node, module: nn.Module | None = None, kind: Kind | None = None) -> Spelling | None:
    """Return the operation of `node`; None if it makes no call, or calls a module with state or of a subclass.

    Args:
        module: the module that `node` calls, if it calls one.
        kind: answers for a node: True for a tensor, False for another value, None if its type is unknown.
    """
    kind = kind or _tensor_or_unknown
    if node.op == "call_module":
        return None if module is None else _of_module(node, module)
    if node.op not in ("call_function", "call_method"):
        return None
    target, args, kwargs = node.target, node.args, node.kwargs
    if node.op == "call_function" and target in _PYTHON:
        name, values = _PYTHON[target], dict(zip(("input", "other"), args))
        values = {"exponent" if name == "pow" and key == "other" else key: value for key, value in values.items()}
        return Spelling(name, values, _defaults_of(name), needs_tensor=True)
    if node.op == "call_function" and target in _FUNCTIONS:
        return _of_python_function(target, args, kwargs) or _as_it_is(node)
    if node.op == "call_method" and target == "split":
        return _of_python_function(torch.split, args, kwargs) or _as_it_is(node)
    family = _family(node.op, target)
    return (_of_operator(family, args, kwargs, kind) if family else None) or _as_it_is(node)


@functools.cache
def targets_of(operation: Any) -> tuple[Any, ...]:
    """Return all targets that compute `operation`: functions, method names, module types."""
    if not isinstance(operation, str):
        return (operation,)
    if operation.startswith("."):
        return (operation[1:],)
    names = [operation, *(second for second, first in _SECOND_NAMES.items() if first == operation)]
    found: dict[Any, None] = {}
    for name in names:
        for home in (torch, torch._C._nn):
            if _is_builtin(getattr(home, name, None)):
                found[getattr(home, name)] = None
        if _is_builtin_method(name) or name == "split":
            found[name] = None
        packet = getattr(torch.ops.aten, name, None)
        for overload in packet.overloads() if packet is not None else ():
            found[getattr(packet, overload)] = None
    for table in (_PYTHON, _FUNCTIONS, {kind: name for kind, (name, _) in WITHOUT_WEIGHTS.items()}):
        found.update(dict.fromkeys(target for target, name in table.items() if name == operation))
    if operation == "sub":
        found[torch.rsub] = None
        found.update(dict.fromkeys((torch.ops.aten.rsub.Tensor, torch.ops.aten.rsub.Scalar)))
    return tuple(found)


@functools.cache
def functions_of(kinds: tuple[type[nn.Module], ...]) -> tuple[Any, ...]:
    """Return the functions that compute on parameters of the model the same as modules of `kinds`."""
    names = dict.fromkeys(WITH_WEIGHTS[kind] for kind in kinds if kind in WITH_WEIGHTS)
    found = {target: None for name in names for target in (*targets_of(name), getattr(F, name))}
    return tuple(found)


def same_literal(a: Any, b: Any) -> bool:
    """Check that two constant arguments are the same: 1, 1.0 and True differ, so do 0.0 and -0.0, and NaN is NaN."""
    a, b = _plain(a), _plain(b)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(same_literal, a, b))
    return type(a) is type(b) and (a is b or repr(a) == repr(b))


def _plain(value: Any) -> Any:
    if isinstance(value, slice):
        return ("slice", value.start, value.stop, value.step)
    return tuple(value) if isinstance(value, list | tuple) else value


def _of_module(node: Node, module: nn.Module) -> Spelling | None:
    if type(module) not in WITHOUT_WEIGHTS or getattr(module, "inplace", False) or len(node.all_input_nodes) != 1:
        return None
    if decide(node, unaltered_conditions(module, str(node.target), type(module))) is not None:
        return None
    name, attributes = WITHOUT_WEIGHTS[type(module)]
    values = {ARGUMENTS.get(attribute, attribute): getattr(module, attribute) for attribute in attributes}
    if name in ("softmax", "log_softmax") and values["dim"] is None:
        return None
    return Spelling(name, {"input": node.all_input_nodes[0], **values}, _defaults_of(name))


def _of_python_function(function: Any, args: Any, kwargs: Any) -> Spelling | None:
    try:
        bound = _signature(function).bind(*args, **kwargs)
    except TypeError:  # a call that would fail is a call of something else
        return None
    bound.apply_defaults()
    name, given = _FUNCTIONS[function], bound.arguments
    # in evaluation mode a dropout returns its input, and writes nothing
    in_place = given.get("inplace") and (name not in DROPOUTS or given.get("training") is not False)
    if in_place or ("dim" in given and given["dim"] is None):
        return None  # a dimension that is guessed from the shape
    values = {ARGUMENTS.get(key, key): value for key, value in given.items() if key not in UNSEEN}
    return Spelling(name, values, _defaults_of(name))


def _of_operator(family: str, args: Any, kwargs: Any, kind: Kind) -> Spelling | None:
    name = _SECOND_NAMES.get(family, family)
    given = {ARGUMENTS.get(key, key): value for key, value in kwargs.items()}
    for strict in (True, False):  # a number is taken for a tensor only if no overload wants a number
        for overload in overloads(family):
            values = overload.bind(args, given, kind, strict)
            if values is None:
                continue
            if family == "rsub":
                values["input"], values["other"], name = values["other"], values["input"], "sub"
                if values.get("alpha", 1) != 1:
                    return None
            label = "view.dtype" if overload.label == "view.dtype" else name
            return Spelling(label, values, overload.defaults)
    return None


def _as_it_is(node: Node) -> Spelling | None:
    """Return the operation of a call outside torch's operators: it equals only the same call."""
    if node.op == "call_method":
        return Spelling(f".{node.target}", _numbered(node.args, node.kwargs), {})
    if isinstance(node.target, types.FunctionType):
        try:
            bound = _signature(node.target).bind(*node.args, **node.kwargs)
        except (TypeError, ValueError):  # a signature unknown to Python
            return Spelling(node.target, _numbered(node.args, node.kwargs), {})
        bound.apply_defaults()
        return Spelling(node.target, dict(bound.arguments), {})
    return Spelling(node.target, _numbered(node.args, node.kwargs), {})


def _numbered(args: Any, kwargs: Any) -> dict[str, Any]:
    return {**{f"argument {i}": value for i, value in enumerate(args)}, **kwargs}


@functools.cache
def _signature(function: Any) -> inspect.Signature:
    return inspect.signature(function)


def _is_builtin(function: Any) -> bool:
    return isinstance(function, types.BuiltinFunctionType)


def _is_builtin_method(name: str) -> bool:
    """Check that the method is torch's own, unpatched by Python code."""
    builtin = getattr(torch._C.TensorBase, name, None)
    return builtin is not None and getattr(torch.Tensor, name) is builtin


@functools.cache
def _family(op: str, target: Any) -> str | None:
    """Return the name of the target in ATen's list; None for other targets."""
    if isinstance(target, torch._ops.OpOverload):
        return target.overloadpacket.__name__ if target.namespace == "aten" else None
    if op == "call_method":
        name = str(target)
        if not _is_builtin_method(name):
            return None
    else:
        name = getattr(target, "__name__", "")
        if target not in (getattr(torch, name, None), getattr(torch._C._nn, name, None)) or not _is_builtin(target):
            return None
    return name if hasattr(torch.ops.aten, name) else None


@functools.cache
def _defaults_of(operation: str) -> Mapping[str, Any]:
    defaults: dict[str, Any] = {}
    for overload in overloads(operation):
        defaults.update(overload.defaults)
    return defaults


def _tensor_or_unknown(node: Node) -> bool | None:
    return True if is_tensor(node) else None
