"""Sources of the tensors of a recording: a node, an attribute of the model, or a constant."""

from __future__ import annotations

import keyword
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import GraphModule, Node

from fxopt.process.fake_tensors import fake_mode
from fxopt.tracing.inputs import InputTensor
from fxopt.tracing.lines import at, calling_line
from fxopt.tracing.report import RecordingError
from fxopt.tracing.sizes import Sizes
from fxopt.tracing.structure import SIZE_TYPES


class Sources:
    """The tensors of one recording by identity, and the paths of the model's modules and attributes.

    `kind` is ``symbolic``, ``fixed`` (both on fake tensors) or ``real``.
    """

    def __init__(self, model: nn.Module, kind: str, sizes: Sizes | None = None) -> None:
        self.model, self.kind, self.sizes = model, kind, sizes
        self.fake_mode: FakeTensorMode | None = None
        if kind != "real":
            self.fake_mode = fake_mode(sizes.env if sizes else None)
            if sizes is not None:
                # to look a call up by its symbolic sizes takes longer than to run it: a third of a recording
                self.fake_mode.cache_enabled = False
        self.extras: dict[str, Any] = {}
        """Objects from outside the model, by the path they get in the graph module."""
        self.renamed: dict[str, str] = {}
        """The model's paths that cannot be targets (keywords of Python, names of GraphModule) -> targets."""
        self._nodes: dict[int, tuple[torch.Tensor, Node]] = {}
        self._paths: dict[int, str] = {}
        for path, module in model.named_modules():
            self._paths.setdefault(id(module), path)
        self._kept: list[Any] = []  # the ids above stay those of these objects
        self._attributes: dict[int, tuple[torch.Tensor, str]] = {}
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            self._attributes.setdefault(id(tensor), (tensor, name))
        for path, module in model.named_modules():
            for name, value in module.__dict__.items():
                if isinstance(value, torch.Tensor) and name.isidentifier():
                    self._attributes.setdefault(id(value), (value, f"{path}.{name}".lstrip(".")))

    # ------------------------------------------------------------ tensors
    def input_tensor(self, each: InputTensor) -> torch.Tensor:
        """Return the tensor that the model sees in the place of an input."""
        tensor = each.tensor.detach().clone().requires_grad_(each.tensor.requires_grad)
        if self.fake_mode is None:
            return tensor
        if self.sizes is None:
            return self.fake_mode.from_tensor(tensor)
        return self.sizes.fake(self.fake_mode, each, tensor)

    def track(self, tensor: torch.Tensor, node: Node) -> None:
        self._nodes[id(tensor)] = (tensor, node)
        if self.sizes is not None:
            self.sizes.bind(tensor.shape, node, "size")
            if tensor.layout == torch.strided:
                self.sizes.bind(tensor.stride(), node, "stride")

    def node_of(self, tensor: torch.Tensor) -> Node | None:
        kept, node = self._nodes.get(id(tensor), (None, None))
        return node if kept is tensor else None

    def target_of_tensor(self, tensor: torch.Tensor) -> str:
        """Return the path of a tensor that no node made."""
        kept, target = self._attributes.get(id(tensor), (None, ""))
        if kept is tensor:
            return self._target(target)
        if isinstance(tensor, FakeTensor):
            line = calling_line()
            raise RecordingError(
                f"a tensor of shape {tuple(tensor.shape)} reached {at(line)} but no recorded operation "
                "produced it (it came from an earlier trace, or from a hidden operation)",
                line,
            )
        target = self.add("_tensor_constant", tensor)
        self._attributes[id(tensor)] = (tensor, target)
        return target

    def is_unbacked(self, value: Any) -> bool:
        return self.sizes is not None and isinstance(value, (list, tuple, *SIZE_TYPES)) and (
            self.sizes.is_unbacked(value)
        )  # fmt: skip

    # ------------------------------------------------------------ modules and objects
    def path_of(self, module: nn.Module) -> str | None:
        return self._paths.get(id(module))

    def target_of(self, module: nn.Module) -> str:
        """Return the path of a leaf; a new name for one that was made in forward."""
        if id(module) not in self._paths:
            self._kept.append(module)
            self._paths[id(module)] = self.add(f"_unregistered_{type(module).__name__}", module)
        return self._target(self._paths[id(module)])

    def has_recorded_tensor(self, module: nn.Module) -> bool:
        """Return whether forward made a parameter or buffer of `module`, or put another in its place."""
        tensors = [*module._parameters.values(), *module._buffers.values()]
        for inner in module.children() if module._modules else ():
            tensors += [*inner.parameters(), *inner.buffers()]
        return any(tensor is not None and self._is_recorded(tensor) for tensor in tensors)

    def _is_recorded(self, tensor: torch.Tensor) -> bool:
        kept, _ = self._attributes.get(id(tensor), (None, ""))
        return kept is not tensor and (isinstance(tensor, FakeTensor) or self.node_of(tensor) is not None)

    def add(self, base: str, value: Any) -> str:
        """Keep an object for the graph module, under a name that is free in the model."""
        index = 0
        while f"{base}{index}" in self.extras or hasattr(self.model, f"{base}{index}"):
            index += 1
        self.extras[f"{base}{index}"] = value
        return f"{base}{index}"

    def _target(self, path: str) -> str:
        """Return `path`, with an underscore after names that have another meaning in generated code or GraphModule."""
        parts = path.split(".")
        safe = [f"{part}_" if keyword.iskeyword(part) else part for part in parts]
        if hasattr(GraphModule, parts[0]) or parts[0] in ("meta", "shape_env"):
            safe[0] = f"{parts[0]}_"
        target = ".".join(safe)
        if target != path:
            self.renamed[path] = target
        return target
