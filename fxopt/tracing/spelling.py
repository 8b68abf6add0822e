"""Spelling of a recorded call of torch in a graph: ``x / 2`` arrives as ``Tensor.div``, say."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from fxopt.graph.operator_names import PYTHON, PYTHON_IN_PLACE
from fxopt.tracing.structure import SIZE_TYPES

_AS_METHODS = {"abs", "floor_divide", "bitwise_not", "bitwise_and", "bitwise_or", "bitwise_xor"}
"""Methods that models call by name: ``x.abs()`` rather than ``abs(x)``."""
_WORDS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift",
          "eq", "ne", "lt", "le", "gt", "ge", "neg", "abs", "invert", "getitem", "setitem")  # fmt: skip
_OPERATORS: dict[str, Callable[..., Any]] = {
    **{name: function for function, name in PYTHON.items() if name not in _AS_METHODS},
    **{f"__{word}__": getattr(operator, f"__{word}__") for word in _WORDS},
}
_REFLECTED: dict[str, Callable[..., Any]] = {
    "__rdiv__": operator.truediv,
    **{f"__r{word}__": getattr(operator, f"__{word}__") for word in _WORDS[:8]},
}
_IN_PLACE: dict[str, Callable[..., Any]] = {
    name: function
    for function, method in PYTHON_IN_PLACE.items()
    if method in ("add_", "sub_", "mul_", "div_")
    for name in (method, f"__{function.__name__}__")
}
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
