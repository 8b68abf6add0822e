"""Changing and removing layers, whether modules or functions are called.

All is done by the rewriter, so the way back follows.
"""

from __future__ import annotations

from torch import nn
from torch.fx import Node

from fxopt.core.rewriter import Rewriter
from fxopt.graph.copying import with_tensors
from fxopt.graph.layer import Held, Layer, argument_names
from fxopt.graph.nodes import TensorInfo


def set_tensors(layer: Layer, rewriter: Rewriter, **tensors: nn.Parameter | None) -> None:
    """Let `layer` compute with other tensors, given by role (``weight``, ``bias``); None removes one.

    A module is replaced by one that shares all else with it. For a function, the tensor is registered under the path of
    the one it replaces, where its ``get_attr`` node finds it; a new one beside the weight, with a node of its own.
    """
    if layer.module is not None:
        rewriter.set_module(layer.path, with_tensors(layer.module, **tensors), called_by=layer.node)
        return
    for role, tensor in tensors.items():
        held = layer.held.get(role)
        if held is None and tensor is not None:
            path = rewriter.free_path(path_beside(layer.held["weight"].path, role))
            rewriter.set_tensor(path, tensor)
            reader = rewriter.get_attr(path, before=layer.node, info=TensorInfo.of(tensor), made_from=(layer.node,))
            set_arguments(layer, rewriter, **{role: reader})
        elif held is not None and tensor is not None:
            rewriter.set_tensor(held.path, tensor)
            if held.reader is not None:
                rewriter.set_info(held.reader, TensorInfo.of(tensor))
                rewriter.mark(held.reader)
        elif held is not None:
            set_arguments(layer, rewriter, **{role: None})
            _remove_held(held, rewriter)
    rewriter.mark(layer.node)


def set_arguments(layer: Layer, rewriter: Rewriter, **arguments: Node | None) -> None:
    """Let the function that `layer` calls be called with other nodes, given by name; None removes one."""
    node, names = layer.node, argument_names(layer.node.target)
    args, kwargs = list(node.args), dict(node.kwargs)
    for name, value in arguments.items():
        place = names.index(name)
        if place < len(args):
            args[place] = value
        elif place == len(args) and name not in kwargs:
            args.append(value)
        else:
            kwargs[name] = value
    while len(args) > 2 and args[-1] is None and args[-1] is not node.args[len(args) - 1]:
        args.pop()  # a missing bias is a missing argument, as export writes it
    rewriter.set_call(node, node.op, node.target, tuple(args), kwargs)


def remove_layer(layer: Layer, rewriter: Rewriter, stand_in: Node) -> None:
    """Let everything that reads `layer` read `stand_in` instead, and remove the layer with its tensors."""
    output = layer.output
    rewriter.replace(output, stand_in)
    if output is not layer.node:
        rewriter.erase(layer.node)
    remove_tensors(layer, rewriter)


def remove_tensors(layer: Layer, rewriter: Rewriter) -> None:
    """Remove the owner of the tensors of a layer that is called no longer: the module, or each tensor."""
    if layer.module is not None:
        rewriter.remove_unused_module(layer.path)
        return
    for held in layer.held.values():
        _remove_held(held, rewriter)


def _remove_held(held: Held, rewriter: Rewriter) -> None:
    """Remove a tensor and the nodes that read it, unless something uses them."""
    _remove_unused(held.path, rewriter)
    parent = rewriter.index.module_at(held.path.rpartition(".")[0])
    if parent is not None and [*parent._parameters, *parent._buffers, *parent._modules] == ["num_batches_tracked"]:
        # exported programs read it, with no effect
        _remove_unused(f"{held.path.rpartition('.')[0]}.num_batches_tracked".removeprefix("."), rewriter)


def _remove_unused(path: str, rewriter: Rewriter) -> None:
    readers = rewriter.index.reads_of(path)
    if not any(reader.users for reader in readers):
        for reader in readers:
            rewriter.erase(reader)
        rewriter.remove_unused_tensor(path)


def path_beside(path: str, role: str) -> str:
    """Return the path of a tensor or module in the same module as the weight at `path`, with its name for `role`."""
    parent, _, name = path.rpartition(".")
    name = name.replace("weight", role) if "weight" in name else f"{name}_{role}"
    return f"{parent}.{name}" if parent else name
