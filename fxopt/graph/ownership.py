"""Conditions of ownership: the module and the tensors of a layer are plain, and belong to it alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import nn
from torch.fx import Node

from fxopt.graph.conditions import Condition, Conditions, Unmet
from fxopt.graph.index import GraphIndex
from fxopt.graph.layer import Held, Layer
from fxopt.graph.metadata import readers_of


def sharing_conditions(node: Node, module: nn.Module, path: str, index: GraphIndex) -> Conditions[None]:
    """Require that `node` alone calls `module`, under one name, and that nobody else reads its tensors."""
    calls = index.calls_of(module)
    yield len(calls) <= 1 or Unmet(
        f"{path} is called {len(calls)} times, by {_others(calls, node)} as well, and all calls share its weights",
        actual=f"{len(calls)} calls",
        needed="1 call",
    )
    paths = index.paths_of(module)
    yield len(paths) <= 1 or Unmet(
        f"{path} is registered under {len(paths)} names: {', '.join(paths)}",
        actual=f"{len(paths)} names",
        needed="1 name",
    )
    reads = [read for read in index.reads_of(path) if readers_of(read)]
    yield not reads or Unmet(
        f"{reads[0].name} reads {reads[0].target}, which is in {path}",
        actual=f"read by {reads[0].name}",
        needed="unread",
    )
    yield parent_condition(path, index)


def held_conditions(layer: Layer, role: str, held: Held, index: GraphIndex) -> Conditions[None]:
    """Require that a tensor which a function is given is registered in the graph module, and for this call alone."""
    reader, name = held.reader, layer.name
    if held.tensor is None or reader is None:
        source = "a constant" if reader is None else f"computed by {reader.name}"
        if reader is not None and reader.op == "placeholder":
            source = f"the input {reader.name}"
        yield Unmet(
            f"the {role} of {name} is {source}, not a parameter or buffer of the model",
            actual=source,
            needed="a parameter or buffer",
        )
        return
    yield held.path in index.owners_of(held.tensor) or Unmet(
        f"{held.path} is an attribute that is not registered as a parameter or buffer",
        remedy="register it",
        actual="an attribute",
        needed="a parameter or buffer",
    )
    readers = [other for other in index.reads_of(held.path) if other.users]
    users = [user for other in readers for user in readers_of(other)]
    yield len(users) <= 1 or Unmet(
        f"{held.path} is read by {_others(users, layer.node)} as well as by {name}",
        actual=f"{len(users)} readers",
        needed="1 reader",
    )
    places = sum(argument is reader for argument in [*layer.node.args, *layer.node.kwargs.values()])
    yield places <= 1 or Unmet(f"{name} is given {held.path} {places} times", actual=f"{places} times", needed="once")
    yield parent_condition(held.path, index)


def parent_condition(path: str, index: GraphIndex) -> Condition:
    """Require that the module or tensor at `path` lies in the graph module itself or in a container of it."""
    parent = index.module_at(path.rpartition(".")[0])
    return (
        type(parent) is nn.Module
        or parent is index.gm
        or Unmet(
            f"{path} lies in a {type(parent).__name__} of the model itself, which has to stay as it is",
            actual=type(parent).__name__,
            needed="a plain module of the graph module",
        )
    )


def tensor_conditions(
    name: str, tensors: Iterable[tuple[str, torch.Tensor | None]], index: GraphIndex, *, ties_ok: bool
) -> Conditions[None]:
    """Require that tensors are plain, untied unless `ties_ok`, and of one floating-point dtype on one device."""
    known = [(path, tensor) for path, tensor in tensors if tensor is not None]
    for path, tensor in known:
        owners = index.owners_of(tensor)
        yield (
            ties_ok
            or len(owners) <= 1
            or Unmet(
                f"{path} is tied to {next((owner for owner in owners if owner != path), owners[0])}",
                remedy="untie them: give each a copy",
                actual=f"{len(owners)} owners",
                needed="1 owner",
            )
        )
        plain = type(tensor) in (nn.Parameter, torch.Tensor) and tensor.layout == torch.strided
        yield (plain and not tensor.is_quantized) or Unmet(
            f"{path} is a {type(tensor).__name__} ({tensor.layout}), whose layout is unknown here",
            actual=f"{type(tensor).__name__} ({tensor.layout})",
            needed="a plain strided tensor",
        )
        yield _unwritten(path, tensor, index)
    sized = [(path, tensor) for path, tensor in known if tensor.dim() > 0]
    kinds = {(tensor.dtype, tensor.device) for _, tensor in sized}
    yield len(kinds) <= 1 or _mixed(name, sized)
    yield all(tensor.is_floating_point() for _, tensor in sized) or Unmet(
        f"{name} has weights of dtype {sized[0][1].dtype}, not a floating-point dtype",
        actual=str(sized[0][1].dtype),
        needed="a floating-point dtype",
    )


def _unwritten(path: str, tensor: torch.Tensor, index: GraphIndex) -> Condition:
    """Require that nothing in the graph writes to the memory of a tensor, under another name, say."""
    found = index.writer_to_memory_of(tensor)
    if found is None:
        return True
    writer, read = found
    same = str(read.target) == path
    return Unmet(
        f"{writer.name} may write to {read.target}" + ("" if same else f", which shares memory with {path}"),
        remedy="" if same else "give each memory of its own",
        actual=f"written by {writer.name}",
        needed="unchanged",
    )


def _mixed(name: str, tensors: list[tuple[str, torch.Tensor]]) -> Unmet:
    found = ", ".join(f"{path.rpartition('.')[2]} {tensor.dtype} on {tensor.device}" for path, tensor in tensors)
    return Unmet(
        f"the tensors of {name} differ in dtype or device: {found}",
        remedy="bring them to one dtype and device",
        actual=found,
        needed="one dtype and device",
    )


def readers_condition(
    node: Node, others: Sequence[Node], *, aside: str = "", needed: str = "no other reader"
) -> Condition:
    """Require that `others`, the readers of `node` beside those that go with it, are none.

    Args:
        aside: a clause about `node`, for the sentence that says so.
        needed: the reader that it may have, in words.
    """
    return not others or Unmet(
        f"{node.name}{aside} is also read by {', '.join(user.name for user in others)}",
        actual=f"{len(others) + 1} readers",
        needed=needed,
    )


def values_condition(name: str, tensor: torch.Tensor) -> Condition:
    """Require that the tensors of the layer `name`, of which `tensor` is one, have values."""
    return not tensor.is_meta or Unmet(
        f"{name} has no values (its tensors are on the meta device)",
        remedy="load its weights first",
        actual="meta",
        needed="values",
    )


def _others(nodes: Iterable[Node], node: Node) -> str:
    names = dict.fromkeys(other.name for other in nodes if other is not node)
    return ", ".join(names) or node.name
