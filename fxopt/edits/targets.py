"""Functions and methods by name: those of torch, ``torch.nn.functional``, ``operator`` and `torch.Tensor` alone.

The names of their parameters come from torch's own table of overridable functions, `torch.overrides`. That table is the
allow-list as well: it holds functions on tensors only, and none that opens files, loads code or sets modes.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx import Node
from torch.overrides import get_testing_overrides

from fxopt.core import Conditions, Unmet, decide, present, target_name
from fxopt.edits.draft import method
from fxopt.edits.place import is_same
from fxopt.graph.operators import operator_of

_OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "eq", "ne", "lt", "le", "gt", "ge",
              "and_", "or_", "xor", "lshift", "rshift", "neg", "pos", "invert", "abs", "iadd", "isub", "imul",
              "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor")  # fmt: skip
_OTHER = "choose a target that takes the arguments of the call"
_OTHER_NAMES = {"self": "input", "a": "input", "b": "other", "exponent": "other", "mat2": "other", "tensor2": "other"}
"""Other names of the same parameter."""

_NEVER = {"backward", "register_hook", "register_post_accumulate_grad_hook", "retain_grad", "requires_grad_", "set_",
          "map_", "map2_", "apply_", "share_memory_", "data_ptr", "storage", "untyped_storage", "tolist", "item",
          "numpy", "record_stream", "rename", "rename_", "module_load", "detach_"}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Target:
    """A function or method that a node can call."""

    name: str
    """``torch.add``, ``F.gelu``, ``operator.mul``, ``torch.Tensor.relu``."""
    op: str
    """``call_function`` or ``call_method``."""
    called: Any
    """The function, or the name of the method."""
    parameters: tuple[inspect.Parameter, ...]

    @property
    def function(self) -> Callable[..., Any]:
        """The callable that takes the arguments of the node."""
        return method(self.called) if self.op == "call_method" else self.called

    @property
    def writes(self) -> bool:
        """True where it writes to its input."""
        written = operator_of(self.called, self.op == "call_method").written
        return any(isinstance(place, int) for place in written)  # `out` is given by name alone

    @property
    def called_names(self) -> tuple[str, ...]:
        """The canonical names of the parameters."""
        return tuple(_canonical(one.name) for one in self.parameters)


@functools.cache
def known_targets() -> Mapping[str, Target]:
    """Return all targets by name."""
    return {target.name: target for target in _all()}


def resolved(name: str) -> Target | None:
    """Return the target of a short or full dotted name, or of the bare name of a method; None for an unknown name.

    >>> resolved("torch.nn.functional.gelu").name, resolved("relu").name, resolved("os.system")
    ('F.gelu', 'torch.Tensor.relu', None)
    """
    name = name.strip().replace("torch.nn.functional.", "F.")
    known = known_targets()
    return known.get(name) or (known.get(f"torch.Tensor.{name}") if "." not in name else None)


def target_named(name: str) -> Target:
    """Return the target that `resolved` finds; raise a `LookupError` where it finds none."""
    found = resolved(name)
    if found is None:
        raise LookupError(f"{name} is no function of tensors that torch knows")
    return found


def target_conditions(name: str) -> Conditions[Target]:
    """Require that there is a target of this name, and return it."""
    return present(
        resolved(name),
        lambda: Unmet(
            f"{name} is not a function of tensors in torch, torch.nn.functional, operator or torch.Tensor",
            "write it like F.gelu, torch.sub or torch.Tensor.tanh",
            actual=name,
            needed="a function that torch knows",
        ),
    )


def target_of(node: Node) -> Target | None:
    """Return the target that `node` calls; None if its parameters are unknown."""
    if node.op == "call_method":
        return known_targets().get(f"torch.Tensor.{node.target}")
    return _by_function().get(node.target) if node.op == "call_function" else None


def fit_conditions(node: Node, new: Target) -> Conditions[None]:
    """Check that the arguments of `node` fit the parameters of `new`."""
    target = target_name(node)
    old = yield from present(
        target_of(node),
        lambda: Unmet(
            f"the parameter names of {target} are unknown", "choose a function of torch", target, "a function of torch"
        ),
    )
    writes = old.writes or bool(node.kwargs.get("inplace")) or node.kwargs.get("out") is not None
    words = {True: "writes in place", False: "makes a new tensor"}
    yield writes == new.writes or Unmet(
        f"{node.name} {words[writes]}, and {new.name} {words[new.writes]}",
        f"choose one that {words[writes]}",
        actual=words[new.writes],
        needed=words[writes],
    )
    mine, theirs = _given(node, old), new.called_names
    takes = ", ".join(theirs) or "nothing"
    for i, name in enumerate(mine):
        there = f"takes {theirs[i]} there" if i < len(theirs) else f"takes only {takes}"
        yield theirs[i : i + 1] == (name,) or Unmet(
            f"{node.name} gives {name} as argument {i}, and {new.name} {there}", _OTHER, actual=name, needed=takes
        )
    given = kwargs_for(node, new)
    for name in given:
        yield name in [one.name for one in new.parameters] or Unmet(
            f"{node.name} gives {name}, which {new.name} does not take", _OTHER, actual=name, needed=takes
        )
    known = {*mine, *map(_canonical, given)}
    for one in new.parameters:
        yield (
            one.default is not one.empty
            or _canonical(one.name) in known
            or Unmet(
                f"{new.name} needs {one.name}, which {node.name} does not give",
                _OTHER,
                actual=", ".join(sorted(known)),
                needed=takes,
            )
        )


def kwargs_for(node: Node, new: Target) -> dict[str, Any]:
    """Return the keyword arguments of `node` for `new`, less those that hold a default and that `new` lacks."""
    old = target_of(node)
    defaults = {one.name: one.default for one in old.parameters} if old is not None else {}
    names = [one.name for one in new.parameters]
    return {
        name: value
        for name, value in node.kwargs.items()
        if name in names or name not in defaults or not is_same(value, defaults[name])
    }


_COMMON = (
    "relu", "gelu", "silu", "tanh", "sigmoid", "elu", "leaky_relu", "selu", "celu", "softplus", "mish",
    "hardswish", "hardsigmoid", "hardtanh", "relu6", "softsign", "logsigmoid", "softmax", "log_softmax",
    "softmin", "cumsum", "cumprod", "add", "sub", "mul", "div", "truediv", "true_divide", "floordiv",
    "floor_divide", "mod", "remainder", "pow", "maximum", "minimum", "matmul", "eq", "ne", "lt", "le",
    "gt", "ge", "and_", "or_", "xor", "logical_and", "logical_or", "mean", "sum", "amax", "amin", "prod",
    "std", "var", "logsumexp", "abs", "neg", "exp", "log", "sqrt", "rsqrt", "square", "sin", "cos", "erf",
    "floor", "ceil", "round", "sign", "reciprocal", "max_pool1d", "max_pool2d", "avg_pool1d",
    "avg_pool2d", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
)  # fmt: skip
"""Common replacements for one another, in the order in which a form offers them. Others can be typed by name."""


def fitting(node: Node) -> Iterator[Target]:
    """Yield the common targets of the same namespace whose parameters fit the arguments of `node`."""
    old = target_of(node)
    if old is None:
        return
    place = old.name.rpartition(".")[0]
    for name in _COMMON:
        for prefix in dict.fromkeys((place, *(("torch", "F") if place in ("torch", "F") else ()))):
            new = known_targets().get(f"{prefix}.{name}")
            if new is not None and new.called is not old.called and decide(node, fit_conditions(node, new)) is None:
                yield new
                break


def _given(node: Node, old: Target) -> tuple[str, ...]:
    """Return the parameter names of the positional arguments."""
    names = old.called_names[: len(node.args)]
    return (*names, *(f"value {i}" for i in range(len(names), len(node.args))))


@functools.cache
def _by_function() -> Mapping[Any, Target]:
    found: dict[Any, Target] = {}
    for target in known_targets().values():
        if target.op == "call_function":
            found.setdefault(target.called, target)
    return found


def _all() -> Iterator[Target]:
    overrides = get_testing_overrides()
    places: Iterable[tuple[str, Any]] = (("torch", torch), ("F", F), ("torch.Tensor", torch.Tensor))
    for place, holder in places:
        for name in dir(holder):
            found = getattr(holder, name) if not name.startswith("_") and name not in _NEVER else None
            if callable(found) and found in overrides:
                is_method = holder is torch.Tensor
                op, called = ("call_method", name) if is_method else ("call_function", found)
                yield Target(f"{place}.{name}", op, called, _parameters(overrides[found]))
    for name in _OPERATORS:
        found = getattr(operator, name)
        yield Target(f"operator.{name}", "call_function", found, _parameters(found))


def _parameters(function: Any) -> tuple[inspect.Parameter, ...]:
    found = inspect.signature(function).parameters
    if "_stacklevel" in found and "dim" in found:  # a softmax, which warns where it has to guess
        found = {**found, "dim": found["dim"].replace(default=inspect.Parameter.empty)}  # type: ignore[assignment]
    return tuple(one for one in found.values() if one.name != "out")


def _canonical(name: str) -> str:
    return _OTHER_NAMES.get(name, name)
