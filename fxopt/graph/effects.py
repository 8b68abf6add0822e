"""The memory effects of a call: nodes that it may write to, and whether its result is new or it reads strides.

`operators.py` knows them of functions and methods; of a module it is known where the module and all in it are torch's
own, called as torch calls them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import FunctionType
from typing import Any

from torch import nn
from torch.fx import Node
from torch.fx.node import map_arg

from fxopt.graph.metadata import is_metadata
from fxopt.graph.module_table import modules_of
from fxopt.graph.nodes import inputs_of, operation_name
from fxopt.graph.operator_table import NEW, POINTWISE, STATISTICS, VIEW_ATTRIBUTES
from fxopt.graph.operators import operator_of

_MODULES = modules_of(NEW)
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")


@dataclass(frozen=True)
class Effects:
    """The memory effects of one call."""

    written: tuple[Node, ...] = ()
    """The nodes whose memory it may change."""
    returns_new_memory: bool = False
    """Whether the result is known to be neither an input nor a view of one."""
    reads_strides: bool = False
    """Whether the numbers of the result may depend on the memory layout of an input."""
    opaque: str = ""
    """The words for an unknown call, which may do anything with the memory of its inputs; empty for a known one."""


def effects_of(node: Node, module: nn.Module | None = None) -> Effects:
    """Return the memory effects of `node`, which calls `module` if it calls one."""
    if node.op == "call_module":
        return _of_module(node, module)
    if node.op not in ("call_function", "call_method"):
        return Effects()
    known = operator_of(node.target, node.op == "call_method")
    if known.opaque or _is_given_code(node):
        kind = known.opaque or "given a function to call"
        return Effects(tuple(inputs_of(node)), False, True, kind)
    if is_metadata(node):
        return Effects(returns_new_memory=True)
    if node.target is getattr:
        return Effects(reads_strides=len(node.args) < 2 or node.args[1] not in VIEW_ATTRIBUTES)
    written = tuple(_written_by(node, known.written))
    new = known.returns_new_memory and not written
    # of one operand, a sum of products may be its dimensions in another order only: a view
    new = new and (operation_name(node) != "einsum" or len(node.all_input_nodes) > 1)
    return Effects(written, new, known.reads_strides)


def is_pointwise(node: Node) -> bool:
    """Return whether `node` calls one of the operations `POINTWISE`."""
    return operation_name(node) in POINTWISE and effects_of(node).returns_new_memory


def _is_given_code(node: Node) -> bool:
    """Return whether an argument is a function or module, which the call then runs."""
    return any(isinstance(given, FunctionType | nn.Module) for given in (*node.args, *node.kwargs.values()))


def _written_by(node: Node, written: frozenset[int | str]) -> Iterable[Node]:
    """Return the nodes among the arguments that a known function may write to."""
    found: dict[Node, None] = {}

    def note(argument: Any) -> None:
        map_arg(argument, lambda other: found.setdefault(other))

    for place in written:
        if isinstance(place, int):
            note(node.args[place] if place < len(node.args) else None)
        else:
            note(node.kwargs.get(place))
    if node.kwargs.get("out") is not None:
        note(node.kwargs["out"])
    if _is_in_place(node):
        note(node.args[0] if node.args else node.kwargs.get("input"))
    name = operation_name(node)
    if name in STATISTICS:
        places, (place, word), off = STATISTICS[name]
        turned_on = node.kwargs.get(word, node.args[place] if len(node.args) > place else off)
        if turned_on is not off:
            for each in places:
                note(node.kwargs.get(each) if isinstance(each, str) else (node.args[each : each + 1] or None))
    return found


def _is_in_place(node: Node) -> bool:
    """Return whether the call is told to write to its input, as `F.relu(x, inplace=True)` is."""
    if node.kwargs.get("inplace"):
        return True
    place = _inplace_place(node.target)
    return place is not None and len(node.args) > place and node.args[place] is not False


@lru_cache(maxsize=4096)
def _inplace_place(function: Any) -> int | None:
    """Return the position of ``inplace`` in a Python function, as `F.relu`; None if it takes none by position."""
    if not isinstance(function, FunctionType) or "inplace" not in function.__code__.co_varnames:
        return None
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    return names.index("inplace") if "inplace" in names else None


# ---- modules


def _of_module(node: Node, module: nn.Module | None) -> Effects:
    opaque = opaque_module(module)
    if opaque:
        return Effects(tuple(inputs_of(node)), False, True, opaque)
    written = tuple(inputs_of(node)) if writes_in_place(module) else ()
    return Effects(written, isinstance(module, _MODULES) and not written)


def returns_new_memory(module: nn.Module | None) -> bool:
    """Return whether a call of `module` is known to return memory of its own."""
    return isinstance(module, _MODULES) and not writes_in_place(module) and not opaque_module(module)


def writes_in_place(module: nn.Module | None) -> bool:
    """Return whether a call of `module` changes its input, as its attribute says: `nn.ReLU(inplace=True)`."""
    if module is None:
        return False
    return any(map(_says_in_place, _inside(module)))


def opaque_module(module: nn.Module | None) -> str:
    """Return the words for a module that is unknown, or has an unknown one in it, from outside torch; else empty."""
    if module is None:
        return "a module that is not there"
    for each in _inside(module):
        if not type(each).__module__.startswith(_HOMES):
            return f"a {type(each).__name__}, which is not a module of torch"
        if "forward" in each.__dict__:
            return f"a {type(each).__name__} with a forward of its own"
        for table in _HOOKS:
            hooks = each.__dict__.get(table)
            if hooks and not all(type(hook).__module__.startswith("torch.nn.utils") for hook in hooks.values()):
                return f"a {type(each).__name__} with a hook"
    return ""


def _inside(module: nn.Module) -> Iterator[nn.Module]:
    """Yield `module` and all in it but parametrizations, which are given its parameters alone."""
    yield module
    for name, child in module._modules.items():
        if child is not None and name != "parametrizations":
            yield from _inside(child)


_HOMES = ("torch.nn.", "torch.ao.nn", "fxopt.")
"""The packages of modules that are known to write only if they say so."""


def _says_in_place(module: nn.Module) -> bool:
    # instead of `getattr` of the module, which takes long if the attribute is missing
    return bool(vars(module).get("inplace", getattr(type(module), "inplace", False)))
