"""Hooks of modules and tensors: functions that only the very module or tensor calls that they were registered with."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from fxopt.graph.conditions import Condition, Unmet

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
"""The attributes in which a module keeps its hooks."""

HOOKS_OF_ALL = tuple(getattr(torch.nn.modules.module, f"_global{table}") for table in HOOKS)
"""The tables of hooks that see all modules."""

_TENSOR_HOOKS = {
    "_backward_hooks": "register_hook",
    "_post_accumulate_grad_hooks": "register_post_accumulate_grad_hook",
}
"""The attributes in which a tensor keeps its hooks, and the methods that register one there."""


def module_hook_condition(module: nn.Module, path: str) -> Condition:
    """Require that `module` runs without a hook."""
    for table in HOOKS:
        hooks = getattr(module, table, None)
        if hooks:
            name = type(next(iter(hooks.values()))).__name__
            kind = table.strip("_").replace("_", " ").removesuffix("s")
            hint = "pruning or weight norm: make it permanent first" if name != "function" else "remove the hook first"
            return Unmet(
                f"{path} has a {kind} ({name}), which would see another call",
                remedy=hint,
                actual=f"{len(hooks)} {kind}{'s' if len(hooks) > 1 else ''}",
                needed="none",
            )
    return True


def gradient_hook_condition(tensors: Iterable[tuple[str, torch.Tensor | None]]) -> Condition:
    """Require that each of `tensors`, given with their paths, is free of hooks for its gradient."""
    for path, tensor in tensors:
        register = gradient_hook_of(tensor) if tensor is not None else ""
        if register:
            return Unmet(
                f"{path} has a gradient hook ({register}), which a tensor in its place would lack",
                remedy=f"remove the hook first, by the handle that {register} returned",
                actual="a gradient hook",
                needed="none",
            )
    return True


def gradient_hook_of(tensor: torch.Tensor) -> str:
    """Return the method that registered a hook for the gradient of `tensor`; empty if there is none."""
    return next((method for table, method in _TENSOR_HOOKS.items() if getattr(tensor, table, None)), "")
