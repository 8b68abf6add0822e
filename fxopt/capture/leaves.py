"""Which modules stay whole: one ``call_module`` node each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch import nn
from torch.fx import GraphModule

Leaf = Callable[[nn.Module, str], bool]
"""Whether the module at this path is a leaf."""

Leaves = Leaf | nn.Module | type[nn.Module] | str | Iterable[nn.Module | type[nn.Module] | str]

_CONTAINERS = (
    nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.Transformer, nn.TransformerEncoder,
    nn.TransformerDecoder, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer, GraphModule,
)  # fmt: skip


def is_torch_layer(module: nn.Module) -> bool:
    of_torch = type(module).__module__.startswith(("torch.nn", "torch.ao.nn", "torch.jit"))  # a script has no inside
    return of_torch and not isinstance(module, _CONTAINERS)


def leaf_predicate(leaves: Leaves | None) -> Leaf:
    """The layers of torch, and what the user names: classes, modules, paths, or a predicate of his own."""
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
