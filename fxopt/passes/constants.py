"""The tensors of a graph that are the same in each run: all that follows from its parameters, buffers and numbers."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.fx import Node
from torch.fx.node import map_arg

from fxopt.core import (
    NEEDS_SHAPES,
    Condition,
    Conditions,
    GraphIndex,
    Miss,
    TensorInfo,
    Unmet,
    decide,
    info_of,
    is_tensor,
    module_conditions,
    operation_name,
)
from fxopt.graph.guards import autocast_condition
from fxopt.graph.marks import ORIGIN, Origin
from fxopt.graph.nodes import attribute_of, inputs_of
from fxopt.graph.operator_table import CASTS, PERMUTES, RESHAPES, VIEWS_OR_COPIES
from fxopt.graph.ownership import parent_condition, readers_condition, values_condition
from fxopt.graph.purity import is_pure, is_size
from fxopt.graph.tensor_state import is_plain

_WHOLE = RESHAPES | PERMUTES | VIEWS_OR_COPIES | CASTS | {"contiguous"}
"""They give all numbers of their input once, and most of them in the same memory."""

_SHARING = (
    "set_",
    torch.Tensor.set_,
    *(getattr(torch.ops.aten.set_, name) for name in torch.ops.aten.set_.overloads()),
)


@dataclass
class Constants:
    """The nodes of a graph that follow from parameters, buffers and numbers alone."""

    index: GraphIndex
    status: dict[Node, Unmet | None] = field(default_factory=dict)
    """None for a constant; the unmet condition for a node that would be one but for it."""
    made: set[Node] = field(default_factory=set)
    """The tensors in memory of their own: neither a parameter or buffer nor a part or view of one."""
    held: set[Node] = field(default_factory=set)
    """The nodes that follow from a parameter or buffer."""
    bytes_before: dict[Node, int] = field(default_factory=dict)
    """For each tensor that may be folded, the bytes of those before it and of all that are folded already."""

    def __post_init__(self) -> None:
        sizes: set[Node] = set()
        total = 0
        for node in self.index.gm.graph.nodes:
            if is_size(node, sizes):
                sizes.add(node)
            if asks_for_device(node):
                self.status[node] = None
            elif self._follows(node, sizes):
                self._note(node)
                total += _bytes_folded(node, self.index)
        for node in filter(self.made.__contains__, self.status):
            self.bytes_before[node] = total
            info = info_of(node)
            if info is not None and self.status[node] is None and self.reader_of(node) is not None:
                total += bytes_of(info)

    def _follows(self, node: Node, sizes: set[Node]) -> bool:
        if node.op == "get_attr":
            return isinstance(attribute_of(self.index.gm, str(node.target)), torch.Tensor)
        if not node.op.startswith("call_") or not all(one in self.status for one in inputs_of(node)):
            return False
        is_other_module = node.op == "call_module" and type(self.index.module_of(node)) is not nn.Embedding
        return node in sizes or (is_tensor(node) and is_pure(node, self.index) and not is_other_module)

    def _note(self, node: Node) -> None:
        read = inputs_of(node)
        found = decide(node, _node_conditions(node, self.index))
        own = found.unmet if isinstance(found, Miss) else None
        self.status[node] = next((unmet for one in read if (unmet := self.status[one]) is not None), own)
        if node.op in ("get_attr", "call_module") or any(one in self.held for one in read):
            self.held.add(node)
        gathers = operation_name(node) == "getitem" and any(map(is_tensor, read[1:]))
        goes_on = operation_name(node) in _WHOLE and bool(read) and read[0] in self.made
        if node.op != "get_attr" and is_tensor(node) and (self.index.is_fresh(node) or gathers or goes_on):
            self.made.add(node)

    def reader_of(self, node: Node) -> Node | None:
        """Return a reader of `node`, or of a part or view of it, that is no constant; None if all are."""
        folded = self.status[node] is None
        seen, todo = {node}, [node]
        while todo:
            for user in todo.pop().users:
                if user not in self.status or (folded and self.status[user] is not None):
                    return user
                if user not in self.made and user not in seen:
                    seen.add(user)
                    todo.append(user)
        return None

    def cone(self, node: Node) -> tuple[Node, ...]:
        """Return all that `node` is computed from, in order, with itself as the last."""
        found, todo = {node}, [node]
        while todo:
            one = todo.pop()
            read = () if asks_for_device(one) else (other for other in inputs_of(one) if other not in found)
            for other in read:
                found.add(other)
                todo.append(other)
        return tuple(sorted(found))

    def alone_conditions(self, cone: tuple[Node, ...]) -> Conditions[None]:
        """Require that all parameters and buffers of a cone go with it, so that none can change without the result."""
        for node in cone[:-1]:
            reads = self.index.reads_of(str(node.target)) if node.op == "get_attr" else (node,)
            if node.op == "get_attr" or node in self.held:
                others = [user for read in reads for user in read.users if user not in cone]
            else:
                reader = self.reader_of(node) if node in self.made else None
                others = [reader] if reader is not None else []
            yield readers_condition(node, others, needed=f"{cone[-1].name} alone")


def constants_of(index: GraphIndex) -> Constants:
    return index.cached_for_a_run(Constants, lambda: Constants(index))


def _node_conditions(node: Node, index: GraphIndex) -> Conditions[None]:
    """Require that a node gives the same in each run, if its inputs do."""
    if node.op == "get_attr":
        path = str(node.target)
        yield parent_condition(path, index)
        yield from _held_conditions(node, path, attribute_of(index.gm, path), index)
        return
    writer = _written(index).get(node)
    yield writer is None or Unmet(
        f"{writer.name if writer is not None else ''} may change {node.name} in place, and so its value",
        actual="written to",
        needed="unchanged",
    )
    yield autocast_condition(node, index)
    dtypes = [info.dtype for one in inputs_of(node) if (info := info_of(one)) is not None]
    module = index.module_of(node)
    if isinstance(module, nn.Embedding):
        yield from module_conditions(node, nn.Embedding, index)
        yield from _held_conditions(node, f"{node.target}.weight", module.weight, index)
        dtypes.append(module.weight.dtype)
    if is_tensor(node):
        yield _dtype_condition(node, dtypes)
        yield _device_condition(node, index)


def _written(index: GraphIndex) -> dict[Node, Node]:
    """Return the nodes whose memory something in the graph may write to, wherever it stands, each with a writer.

    `z.set_(y)` gives the memory of `y` to `z`, so a later write to `z` is one to `y`.
    """
    return index.cached_for_a_run(
        _written,
        lambda: {
            origin: writer
            for writer in index.writers
            for written in (inputs_of(writer) if writer.target in _SHARING else index.effects(writer).written)
            for origin in index.origins(written)
        },
    )


def _held_conditions(node: Node, path: str, tensor: torch.Tensor, index: GraphIndex) -> Conditions[None]:
    """Require that a parameter or buffer is a plain tensor with memory of its own, which stays as it is."""
    yield values_condition(path, tensor)
    yield (is_plain(tensor) and not tensor.is_quantized and not tensor.is_inference()) or Unmet(
        f"{path} is a {type(tensor).__name__} ({tensor.layout}), of which torch counts no writes or hides the memory",
        actual=f"{type(tensor).__name__} ({tensor.layout})",
        needed="a plain strided tensor",
    )
    yield not tensor.requires_grad or Unmet(
        f"{path} trains, and the result would not", "freeze it by requires_grad_(False)", "trains", "frozen"
    )
    owners = index.cached_for_a_run(_owners_of_memory, lambda: _owners_of_memory(index))
    names = owners.get(tensor.untyped_storage()._cdata, [])
    yield names == [path] or Unmet(
        f"the memory of {path} is registered as {', '.join(names) or 'no parameter or buffer'}",
        actual=f"{len(names)} names",
        needed=f"{path} alone",
    )
    parents = ["", *(path[:place] for place, sign in enumerate(path) if sign == ".")]
    modules = (index.module_at(parent) for parent in parents)
    calls = [call for one in modules if one is not None for call in index.calls_of(one) if call is not node]
    found = index.writer_to_memory_of(tensor)
    writer = calls[0].name if calls else found[0].name if found is not None else ""
    yield not writer or Unmet(
        f"{writer} may write to {path}, which is then another one in the next run",
        actual=f"written by {writer}",
        needed="unchanged",
    )
    info, now = info_of(node), TensorInfo.of(tensor)
    same = (
        info is None or info == now or (node.op != "get_attr" and (info.dtype, info.device) == (now.dtype, now.device))
    )
    yield same or Unmet(
        f"{path} is {now} on {now.device}, and {node.name} is noted as {info} on {info.device if info else ''}",
        remedy=NEEDS_SHAPES,
        actual=str(now),
        needed=str(info),
    )


def _owners_of_memory(index: GraphIndex) -> dict[int, list[str]]:
    """Return the paths of the parameters and buffers in each storage."""
    found: dict[int, list[str]] = {}
    tensors = (*index.gm.named_parameters(remove_duplicate=False), *index.gm.named_buffers(remove_duplicate=False))
    for path, tensor in tensors:
        if tensor.layout == torch.strided:
            found.setdefault(tensor.untyped_storage()._cdata, []).append(path)
    return found


def _dtype_condition(node: Node, dtypes: list[torch.dtype]) -> Condition:
    """Require that floating-point numbers have the dtype of a parameter or buffer, one of `dtypes`.

    `.half` converts a parameter of such numbers, but no dtype that is given, nor torch's default one.
    """
    info = info_of(node)
    if info is None:
        return Unmet(f"the size of {node.name} is unknown", remedy=NEEDS_SHAPES, actual="unknown", needed="a size")
    if not (info.dtype.is_floating_point or info.dtype.is_complex):
        return True
    given: list[Any] = [*node.args, *node.kwargs.values()]
    is_cast = operation_name(node) in CASTS and not any(isinstance(one, Node) for one in given[1:])
    is_given = is_cast or any(isinstance(one, torch.dtype) for one in given)
    return (info.dtype in dtypes and not info.dtype.is_complex and not is_given) or Unmet(
        f"{node.name} is {info.dtype} whatever the parameters and buffers are, and the result would change with them",
        actual="a dtype of its own",
        needed="that of the parameters and buffers",
    )


def _device_condition(node: Node, index: GraphIndex) -> Condition:
    """Require that a tensor lies beside a parameter or buffer: on the device of its inputs, or of another tensor."""
    given: list[Any] = [*node.args, *node.kwargs.values()]
    words = given if operation_name(node) in CASTS else [node.kwargs.get("device")]
    is_given = any(isinstance(one, torch.device) for one in given) or any(isinstance(one, str) for one in words)
    asked = [one for one in inputs_of(node) if asks_for_device(one)]
    follows = bool(asked) or isinstance(node.kwargs.get("device"), Node) or any(map(is_tensor, inputs_of(node)))
    if is_given or not follows:
        where = "the device that is given" if is_given else "torch's default device"
        return Unmet(
            f"{node.name} is made on {where}, and the result would move with the model",
            remedy="give it the device of a tensor: device=x.device",
            actual=where,
            needed="the device of a tensor",
        )
    devices = {tensor.device for tensor in (*index.gm.parameters(), *index.gm.buffers())}
    other = next((one for one in map(device_asked_for, asked) if devices != {one}), None)
    return other is None or Unmet(
        f"{node.name} is made on the device of the call, here {other}, which the model's own tensors do not tell",
        actual=", ".join(map(str, devices)) or "a model without tensors",
        needed=f"parameters and buffers on {other} alone",
    )


def asks_for_device(node: Node) -> bool:
    """Return whether `node` asks a tensor, other than a parameter or buffer, for its device, which is known."""
    asks = node.op == "call_function" and node.target is getattr and node.args[1:] == ("device",)
    return asks and device_asked_for(node) is not None and getattr(node.args[0], "op", "") != "get_attr"


def device_asked_for(node: Node) -> torch.device | None:
    info = info_of(node.args[0]) if isinstance(node.args[0], Node) else None
    return info.device if info is not None else None


def _bytes_folded(node: Node, index: GraphIndex) -> int:
    origin = node.meta.get(ORIGIN)
    is_folded = node.op == "get_attr" and isinstance(origin, Origin) and origin.pass_name == "FoldConstants"
    first = is_folded and index.reads_of(str(node.target))[0] is node
    size: int = attribute_of(index.gm, str(node.target)).nbytes if first else 0
    return size


def bytes_of(info: TensorInfo) -> int:
    """Return the bytes of a tensor of fixed sizes; 0 if a size is free."""
    sizes = [size for size in info.shape if isinstance(size, int)]
    return info.dtype.itemsize * math.prod(sizes) if len(sizes) == len(info.shape) else 0


def value_of(cone: tuple[Node, ...], index: GraphIndex) -> torch.Tensor:
    """Return the value of the last node of a cone in new memory, computed in no mode of the caller."""
    values: dict[Node, Any] = {}
    devices = {info.device for node in cone if (info := info_of(node)) is not None}
    kinds = sorted({device.type for device in devices})
    autocasts = [torch.autocast(kind, enabled=False) for kind in kinds if torch.amp.is_autocast_available(kind)]
    with contextlib.ExitStack() as stack:
        modes: tuple[Any, ...] = (torch.inference_mode(False), torch.no_grad(), *autocasts)
        for mode in modes:
            stack.enter_context(mode)
        for node in cone:
            if node.op == "get_attr":
                values[node] = attribute_of(index.gm, str(node.target))
                continue
            if asks_for_device(node):
                values[node] = device_asked_for(node)
                continue
            args, kwargs = map_arg((node.args, node.kwargs), lambda one: values[one])
            if node.op == "call_method":
                values[node] = getattr(args[0], str(node.target))(*args[1:], **kwargs)
            else:
                module = index.module_of(node)
                function: Any = node.target if module is None else module
                values[node] = function(*args, **kwargs)
        found: torch.Tensor = values[cone[-1]].clone()
        return found
