"""Leaf modules: those that stay whole, one ``call_module`` node each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch import nn
from torch.fx import GraphModule

Leaf = Callable[[nn.Module, str], bool]
"""A predicate of module and path: whether the module is a leaf."""

Leaves = Leaf | nn.Module | type[nn.Module] | str | Iterable[nn.Module | type[nn.Module] | str]

_CONTAINERS = (
    nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.Transformer, nn.TransformerEncoder,
    nn.TransformerDecoder, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer, GraphModule,
)  # fmt: skip


def is_torch_layer(module: nn.Module) -> bool:
    of_torch = type(module).__module__.startswith(("torch.nn", "torch.ao.nn", "torch.jit"))  # a script has no inside
    return of_torch and not isinstance(module, _CONTAINERS)


def leaf_predicate(leaves: Leaves | None) -> Leaf:
    """Return the predicate for torch's layers and the user's: classes, modules, paths, or another predicate."""
    named: list[Any]
    if leaves is None:
        named = []
    elif isinstance(leaves, (nn.Module, type, str)):
        named = [leaves]
    elif callable(leaves):
        predicate = leaves
        return lambda module, path: is_torch_layer(module) or predicate(module, path)
    else:
        named = list(leaves)
    classes = tuple(each for each in named if isinstance(each, type))
    modules = {id(each) for each in named if isinstance(each, nn.Module)}
    paths = {each for each in named if isinstance(each, str)}
    return lambda module, path: (
        is_torch_layer(module) or isinstance(module, classes) or id(module) in modules or path in paths
    )
