"""Spelling of a recorded call of torch in a graph: ``x / 2`` arrives as ``Tensor.div``, say."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from fxopt.tracing.structure import SIZE_TYPES

_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
    "matmul": operator.matmul, "neg": operator.neg, "remainder": operator.mod, "pow": operator.pow,
    "gt": operator.gt, "ge": operator.ge, "lt": operator.lt, "le": operator.le, "eq": operator.eq,
    "ne": operator.ne, "__getitem__": operator.getitem, "__setitem__": operator.setitem,
    "__eq__": operator.eq, "__ne__": operator.ne, "__lt__": operator.lt, "__le__": operator.le,
    "__gt__": operator.gt, "__ge__": operator.ge, "__and__": operator.and_, "__or__": operator.or_,
    "__xor__": operator.xor, "__invert__": operator.invert, "__floordiv__": operator.floordiv,
    "__lshift__": operator.lshift, "__rshift__": operator.rshift, "__add__": operator.add,
    "__sub__": operator.sub, "__mul__": operator.mul, "__truediv__": operator.truediv,
    "__matmul__": operator.matmul, "__pow__": operator.pow, "__mod__": operator.mod,
    "__neg__": operator.neg, "__abs__": operator.abs,
}  # fmt: skip
_REFLECTED: dict[str, Callable[..., Any]] = {
    "__rsub__": operator.sub, "__rdiv__": operator.truediv, "__rtruediv__": operator.truediv,
    "__rpow__": operator.pow, "__rmatmul__": operator.matmul, "__rfloordiv__": operator.floordiv,
    "__rmod__": operator.mod, "__radd__": operator.add, "__rmul__": operator.mul,
}  # fmt: skip
_IN_PLACE: dict[str, Callable[..., Any]] = {
    "add_": operator.iadd, "sub_": operator.isub, "mul_": operator.imul, "div_": operator.itruediv,
    "__iadd__": operator.iadd, "__isub__": operator.isub, "__imul__": operator.imul,
    "__itruediv__": operator.itruediv,
}  # fmt: skip
_UNARY = {operator.neg, operator.invert, operator.abs}


@dataclass(frozen=True)
class Call:
    """A call as a torch function mode sees it."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", "")

    @property
    def read_property(self) -> str | None:
        """The property of a tensor that this call reads: ``T``, ``data``, ``real``."""
        return self._property() if self.name == "__get__" else None

    @property
    def set_property(self) -> str | None:
        return self._property() if self.name == "__set__" else None

    def _property(self) -> str:
        return str(getattr(self.function, "__self__").__name__)  # noqa: B009

    @property
    def is_in_place(self) -> bool:
        """Whether the call returns its first argument, changed."""
        name = self.name
        return (
            (name.endswith("_") and not name.endswith("__"))
            or name == "__setitem__"
            or (name.startswith("__i") and name not in ("__invert__", "__index__", "__int__", "__iter__"))
            or self.kwargs.get("out") is not None
            or self.kwargs.get("inplace") is True
        )

    def spelled(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, Any, Any, Any]:
        """Return operation, target, args and kwargs of the node, for arguments that are written as nodes."""
        if self.read_property is not None:
            return "call_function", builtins.getattr, (args[0], self.read_property), {}
        name, count = self.name, len(args)
        if not self._is_method():
            return "call_function", self.function, args, kwargs
        if not kwargs and count == 2 and name in _REFLECTED:
            return "call_function", _REFLECTED[name], (args[1], args[0]), {}
        if not kwargs and count == 2 and name in _IN_PLACE:
            return "call_function", _IN_PLACE[name], args, {}
        if not kwargs and name in _OPERATORS and count == _operands(name):
            return "call_function", _OPERATORS[name], args, {}
        if self.args and isinstance(self.args[0], torch.Tensor):
            return "call_method", name, args, kwargs
        return "call_function", self.function, args, kwargs

    def _is_method(self) -> bool:
        method = getattr(torch.Tensor, self.name, None)
        return method is not None and (method == self.function or self.function is torch.Tensor.__pow__)


def _operands(name: str) -> int:
    if name == "__setitem__":
        return 3
    return 1 if _OPERATORS[name] in _UNARY else 2


def as_other_calls(call: Call) -> Callable[[], Any] | None:
    """Return a way to make `call` out of calls that can be recorded, if it cannot be itself."""
    if call.name == "__iter__" and call.args:
        return lambda: iter(call.args[0].unbind(0))
    if call.function in (torch.tensor, torch.as_tensor) and call.args:
        data = call.args[0]
        sizes = data if isinstance(data, (list, tuple)) else [data]
        numbers = all(isinstance(part, (*SIZE_TYPES, int, float)) for part in sizes)
        if numbers and any(isinstance(part, SIZE_TYPES) for part in sizes):
            return lambda: _tensor_of_sizes(sizes, sizes is data, call.kwargs)
    return None


def _tensor_of_sizes(sizes: Any, as_list: bool, kwargs: dict[str, Any]) -> torch.Tensor:
    floats = any(isinstance(part, (float, torch.SymFloat)) for part in sizes)
    dtype = kwargs.get("dtype") or (torch.get_default_dtype() if floats else torch.int64)
    scalars = [torch.scalar_tensor(part, dtype=dtype, device=kwargs.get("device")) for part in sizes]
    return torch.stack(scalars) if as_list else scalars[0]
