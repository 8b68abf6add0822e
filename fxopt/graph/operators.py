"""The memory effects of operators: arguments written, results that may be views, strides read.

torch is asked first. The schema of an operator marks the arguments that it writes and the results that may be views
(`alias_info`); the tag ``maybe_aliasing_or_mutating`` marks schemas that promise too much. Functions and tensor methods
are looked up in ``torch.ops.aten`` by name, and of several overloads the effects of all hold. Two things torch does not
declare: which operators depend on strides, and which composite operators (those that are
calls of others, whose annotations torch itself does not rely on) return new memory. `tests/graph/test_operators.py`
holds all of it against the operators themselves.

An operator outside of these sources is `opaque`: it may write its arguments, return a view of them, and read strides.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from dataclasses import dataclass, is_dataclass
from types import FunctionType
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket
from torch.fx import Node

from fxopt.graph.operator_names import PYTHON_IN_PLACE, canonical
from fxopt.graph.operator_table import NEW, NOT_NEW, READS_STRIDES

_IN_PLACE = frozenset({operator.setitem, operator.delitem, operator.imatmul, operator.ilshift, operator.irshift,
                       operator.iconcat})  # fmt: skip
"""Beside those whose name ends with an underscore."""
_NOT_IN_PLACE = ("not_", "is_")
_METHODS_IN_PLACE = {"__idiv__", *(f"__{function.__name__}__" for function in (*PYTHON_IN_PLACE, *_IN_PLACE))}

_OF_TORCH = ("torch", "torch.functional", "torch._tensor", "torch._VF", "torch._jit_internal", "torch.nn.functional",
             "torch.nn.init", "torch.amp.autocast_mode", "torch._ops.aten", "torch._ops.prims", "_operator",
             "builtins", "math", "collections", "itertools", "fxopt.tracing.structure")  # fmt: skip
_OF_CONTAINERS = frozenset(name for kind in (dict, list, tuple, str, int, float, bool, slice, torch.Size)
                           for name in dir(kind))  # fmt: skip


@dataclass(frozen=True)
class Operator:
    """The memory effects of one operator, however it is called."""

    written: frozenset[int | str] = frozenset()
    """Places and names of the arguments that it may write to."""
    returns_new_memory: bool = False
    reads_strides: bool = False
    opaque: str = ""
    """The words for an unknown operator: ``a function of one's own``."""


_OPAQUE_FUNCTION = Operator(reads_strides=True, opaque="a function that is not torch's")


def name_of(target: Any, is_method: bool = False) -> str:
    """Return the one name of an operator: ``view`` of ``aten.view.default``, ``div`` of ``operator.truediv``."""
    if isinstance(target, OpOverload):
        return canonical(str(target.overloadpacket.__name__))
    return canonical(str(target) if is_method else str(getattr(target, "__name__", "")))


def is_torchs_own(target: Any, is_method: bool = False) -> bool:
    """Return True for operators of torch and Python, False for one's own, though it may bear the name of one."""
    if is_method:
        return hasattr(torch.Tensor, str(target)) or str(target) in _OF_CONTAINERS
    if isinstance(target, type) and (issubclass(target, dict | tuple | list) or is_dataclass(target)):
        return True  # it holds its argument
    home = getattr(target, "__module__", None) or ""
    if isinstance(target, OpOverload | OpOverloadPacket):
        return home in ("torch._ops.aten", "torch._ops.prims")
    if not home:
        return getattr(target, "__objclass__", None) in torch.Tensor.__mro__
    return home in _OF_TORCH or home.startswith("torch._C")


def calls_torchs_own(node: Node) -> bool:
    """Return True where `node` calls an operator of torch or Python, by function or method."""
    return is_torchs_own(node.target, node.op == "call_method")


def operator_of(target: Any, is_method: bool = False) -> Operator:
    """Return the memory effects of the target of a node, a function or the name of a method."""
    try:
        return _operator_of(target, is_method)
    except TypeError:  # a callable without a hash
        return _OPAQUE_FUNCTION


@functools.lru_cache(maxsize=4096)  # a graph calls few functions, many times
def _operator_of(target: Any, is_method: bool) -> Operator:
    name = name_of(target, is_method)
    if isinstance(target, OpOverload):
        return _declared(name, [target], is_torchs_own(target))
    if isinstance(target, OpOverloadPacket):
        return _declared(name, _overloads(target), is_torchs_own(target))
    if not is_torchs_own(target, is_method):
        kind = "a method that is not of torch's tensors" if is_method else _OPAQUE_FUNCTION.opaque
        return Operator(reads_strides=True, opaque=kind)
    packet = getattr(torch.ops.aten, name, None) if name.isidentifier() else None
    overloads = _overloads(packet) if isinstance(packet, OpOverloadPacket) else []
    made = _declared(name, overloads, torchs_own=True)
    written = made.written | (_FIRST if _says_in_place(target, name) else frozenset())
    in_python = isinstance(getattr(torch.Tensor, name, None) if is_method else target, FunctionType)
    new = name in NEW or (made.returns_new_memory and bool(overloads) and not in_python)
    return Operator(written, new and not _says_in_place(target, name), made.reads_strides)


_FIRST: frozenset[int | str] = frozenset({0, "input", "self", "tensor"})
"""The first argument by place, and by its names in torch: that of `nn.init.constant_` is ``tensor``."""


def _says_in_place(target: Any, name: str) -> bool:
    by_name = name.endswith("_") and not name.endswith("__") and name not in _NOT_IN_PLACE
    return by_name or name in _METHODS_IN_PLACE or (not isinstance(target, str) and target in _IN_PLACE)


def _overloads(packet: OpOverloadPacket) -> list[OpOverload]:
    """Return the overloads. Those of TorchScript alone, such as a sort of lists in place, count where no other is."""
    found = [getattr(packet, name) for name in packet.overloads()]
    return [overload for overload in found if _has_kernel(overload, "CompositeImplicitAutograd") is not None] or found


def _declared(name: str, overloads: Iterable[OpOverload], torchs_own: bool) -> Operator:
    """Return the effects that the schemas declare, of all overloads together; those by hand if torch declares none."""
    written: set[int | str] = set()
    new = not (torchs_own and name in NOT_NEW)
    strict = True
    for overload in overloads:
        schema = overload._schema
        out = False
        for place, argument in enumerate(schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                out = out or argument.kwarg_only
                written |= {argument.name} if argument.kwarg_only else {argument.name, place}
        new = new and (out or (torchs_own and name in NEW) or _declares_new(overload))
        strict = strict and torch.Tag.flexible_layout not in overload.tags
    return Operator(frozenset(written), new, (strict if not torchs_own else name in READS_STRIDES))


def _declares_new(overload: OpOverload) -> bool:
    returns = [returned for returned in overload._schema.returns if "Tensor" in str(returned.type)]
    if any(returned.alias_info is not None for returned in returns):
        return False
    return not returns or not (torch.Tag.maybe_aliasing_or_mutating in overload.tags or _is_composite(overload))


def _is_composite(overload: OpOverload) -> bool:
    """Return whether it is a call of other operators, so that the marks of its own schema bind nobody."""
    return _has_kernel(overload, "CompositeImplicitAutograd") is not False


def _has_kernel(overload: OpOverload, key: str) -> bool | None:
    """Return None for an operator of TorchScript alone, which the dispatcher does not know."""
    try:
        return bool(torch._C._dispatch_has_kernel_for_dispatch_key(overload.name(), key))
    except RuntimeError:
        return None
