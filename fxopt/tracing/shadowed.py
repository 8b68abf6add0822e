"""Attributes of a model that hide methods of `nn.Module` by which its layers are found."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from fxopt.tracing.report import CaptureError

_NEEDED = (
    "modules", "named_modules", "parameters", "named_parameters", "buffers", "named_buffers", "children",
    "named_children", "state_dict", "get_submodule", "get_parameter", "get_buffer", "train",
)  # fmt: skip


def refuse_shadowed_methods(model: nn.Module) -> None:
    """Raise `CaptureError` where a module has a value under the name of a method that finds its layers."""
    for path, module in _modules(model, "", set()):
        for name in _NEEDED:
            if not callable(getattr(module, name)):
                where = f"{type(module).__name__}.{name}" + (f" (at {path})" if path else "")
                subject = f"{where} is a {type(getattr(module, name)).__name__}, which hides nn.Module.{name}():"
                raise CaptureError(
                    f"{subject} the layers of the model cannot be found",
                    remedies=(f"give the attribute another name, as self.{name}_",),
                )


def _modules(module: nn.Module, path: str, seen: set[int]) -> Iterator[tuple[str, nn.Module]]:
    """Yield each module by its path: `named_modules`, which may be hidden itself."""
    if id(module) in seen:
        return
    seen.add(id(module))
    yield path, module
    for name, child in module._modules.items():
        if child is not None:
            yield from _modules(child, f"{path}.{name}".lstrip("."), seen)
