"""Conditions that every pass which replaces or removes modules must see met; each unmet one is a `Miss`."""

from __future__ import annotations

import torch
from torch import nn
from torch.fx import Node
from torch.nn.utils import parametrize

from fxopt.core.index import GraphIndex
from fxopt.core.pass_base import Miss

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def input_of(node: Node) -> Node | None:
    """The node that a call of a one-input module reads, given by position or as ``input``; None for another call."""
    given = [*node.args, *node.kwargs.values()]
    if len(given) == 1 and isinstance(given[0], Node) and set(node.kwargs) <= {"input"}:
        return given[0]
    return None


def module_miss(site: Node, node: Node, kind: type[nn.Module], index: GraphIndex) -> Miss | None:
    """Why the module that `node` calls may not be replaced or folded by a site anchored at `site`; None if it may."""
    module = index.module_of(node)
    path = str(node.target)
    if module is None:
        return Miss(site, f"{path} is not a module of the graph module")
    for check in (_type_reason, _hook_reason):
        found = check(module, path, kind)
        if found is not None:
            return Miss(site, *found)
    found = _sharing_reason(node, module, path, index) or _tensor_reason(module, path, index)
    if found is not None:
        return Miss(site, *found)
    if input_of(node) is None:
        return Miss(site, f"{node.name} is called with arguments other than one input")
    return None


_Reason = tuple[str, str] | None


def _type_reason(module: nn.Module, path: str, kind: type[nn.Module]) -> _Reason:
    if parametrize.is_parametrized(module):
        names = ", ".join(module.parametrizations)  # type: ignore[arg-type]
        remedy = f"torch.nn.utils.parametrize.remove_parametrizations(module, {names.partition(',')[0]!r})"
        return f"{path} computes its {names} by a parametrization", remedy
    if type(module) is not kind:
        return (
            f"{path} is a {type(module).__name__}, a subclass of {kind.__name__} that may compute something else",
            "",
        )
    if "forward" in module.__dict__:
        return f"{path} has a forward method of its own, set on the instance", ""
    return None


def _hook_reason(module: nn.Module, path: str, kind: type[nn.Module]) -> _Reason:
    for table in _HOOKS:
        hooks = getattr(module, table, None)
        if hooks:
            name = type(next(iter(hooks.values()))).__name__
            what = table.strip("_").replace("_", " ").removesuffix("s")
            hint = "pruning or weight norm: make it permanent first" if name != "function" else "remove the hook first"
            return f"{path} has a {what} ({name}), which would no longer see the same call", hint
    return None


def _sharing_reason(node: Node, module: nn.Module, path: str, index: GraphIndex) -> _Reason:
    calls = index.calls_of(module)
    if len(calls) > 1:
        others = ", ".join(call.name for call in calls if call is not node)
        return (
            f"{path} is called {len(calls)} times, by {others} as well, and all calls share its weights",
            "",
        )
    paths = index.paths_of(module)
    if len(paths) > 1:
        return f"{path} is registered under {len(paths)} names: {', '.join(paths)}", ""
    reads = index.reads_of(path)
    if reads:
        return f"{reads[0].name} reads {reads[0].target}, which is in {path}", ""
    parent = index.module_at(path.rpartition(".")[0])
    if type(parent) is not nn.Module and parent is not index.gm:
        return f"{path} lies in a {type(parent).__name__} of the model itself, which is not to be changed", ""
    return None


def _tensor_reason(module: nn.Module, path: str, index: GraphIndex) -> _Reason:
    tensors = {**module._parameters, **module._buffers}
    known: list[tuple[str, torch.Tensor]] = [(name, t) for name, t in tensors.items() if t is not None]
    for name, tensor in known:
        owners = index.owners_of(tensor)
        if len(owners) > 1:
            other = next((owner for owner in owners if owner != f"{path}.{name}"), owners[0])
            return f"{path}.{name} is tied to {other}", "untie them: give each a copy"
        if type(tensor) not in (nn.Parameter, torch.Tensor) or tensor.layout != torch.strided or tensor.is_quantized:
            return (
                f"{path}.{name} is a {type(tensor).__name__} ({tensor.layout}), whose layout is not known here",
                "",
            )
    floating = [(name, t) for name, t in known if t.dim() > 0]
    kinds = {(tensor.dtype, tensor.device) for _, tensor in floating}
    if len(kinds) > 1:
        found = ", ".join(f"{name} {tensor.dtype} on {tensor.device}" for name, tensor in floating)
        return (
            f"the tensors of {path} differ in dtype or device: {found}",
            "bring them to one dtype and device",
        )
    if any(not tensor.is_floating_point() for _, tensor in floating):
        return f"{path} has weights of dtype {floating[0][1].dtype}, not a floating-point dtype", ""
    return None
