"""The tensors of a graph module, each once: their file, and the table that puts them back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn
from torch.fx import GraphModule

from fxopt.graph.hooks import gradient_hook_of
from fxopt.graph.marks import LEDGER
from fxopt.graph.nodes import attribute_of

DTYPES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64", "U16": "uint16",
    "U32": "uint32", "U64": "uint64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "C64": "complex64",
}  # fmt: skip
"""The dtypes of safetensors, and their names in torch."""


@dataclass(frozen=True, eq=False)
class Place:
    """A place that holds a tensor: its path, and the kind of place."""

    path: str
    kind: str
    """``parameter``, ``buffer``, ``temporary`` (a buffer outside the state) or ``constant`` (an attribute)."""
    tensor: torch.Tensor
    stored: str
    """The name in the file: the first path of the same tensor."""

    @property
    def row(self) -> str:
        """The row of the table in the exported file."""
        grad = ", True" if self.tensor.requires_grad else ""
        return f"    {self.path!r}: ({self.kind!r}, {self.stored!r}{grad}),"


@dataclass(eq=False)
class Tensors:
    """The places of all tensors of a graph module, in the order of its modules, and the faults among them."""

    places: list[Place] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, gm: GraphModule) -> Tensors:
        found, first = cls(), dict[int, str]()
        for path, kind, tensor in (*_held(gm), *_constants(gm)):
            problem = _problem(tensor)
            if problem:
                found.problems.append(f"{path}: {problem}")
            found.places.append(Place(path, kind, tensor, first.setdefault(id(tensor), path)))
        return found

    @property
    def strides(self) -> dict[str, tuple[int, ...]]:
        """The strides of each stored tensor that lies in memory otherwise than row by row."""
        stored = [place for place in self.places if place.stored == place.path]
        return {
            place.stored: tuple(place.tensor.stride())
            for place in stored
            if not place.tensor.is_contiguous() and _is_dense(place.tensor)
        }

    def save(self, file: Path) -> None:
        """Write each tensor once, as safetensors."""
        memory: set[int] = set()
        content = {}
        for place in self.places:
            if place.stored != place.path:
                continue
            tensor = place.tensor.detach().cpu().contiguous()
            at = tensor.untyped_storage().data_ptr()
            content[place.stored] = tensor.clone() if at in memory else tensor  # the format shares no memory
            memory.add(at)
        save_file(content, file)


def _is_dense(tensor: torch.Tensor) -> bool:
    """Return whether the elements of a tensor lie in memory without gaps and overlaps."""
    return bool(torch.ops.aten.is_non_overlapping_and_dense(tensor))


def _held(gm: GraphModule) -> Iterator[tuple[str, str, torch.Tensor]]:
    for path, module in gm.named_modules(remove_duplicate=False):
        if path.partition(".")[0] == LEDGER:
            continue
        prefix = f"{path}." if path else ""
        for name, parameter in module._parameters.items():
            if parameter is not None:
                yield prefix + name, "parameter", parameter
        for name, buffer in module._buffers.items():
            if buffer is not None:
                is_kept = name not in module._non_persistent_buffers_set
                yield prefix + name, "buffer" if is_kept else "temporary", buffer


def _constants(gm: GraphModule) -> Iterator[tuple[str, str, torch.Tensor]]:
    """Yield the tensors that the graph reads and that are plain attributes."""
    for target in dict.fromkeys(str(node.target) for node in gm.graph.nodes if node.op == "get_attr"):
        owner, _, name = target.rpartition(".")
        holder = gm.get_submodule(owner)
        value = attribute_of(holder, name)
        if isinstance(value, torch.Tensor) and name not in holder._parameters and name not in holder._buffers:
            yield target, "constant", value


def _problem(tensor: torch.Tensor) -> str:
    if type(tensor) not in (torch.Tensor, nn.Parameter, nn.Buffer):
        return f"a {type(tensor).__name__} is no plain tensor"
    if tensor.layout is not torch.strided or tensor.is_quantized:
        return f"a tensor of layout {tensor.layout} cannot be stored; make it dense first"
    if tensor.is_meta:
        return "it is on the meta device and has no numbers"
    if str(tensor.dtype).removeprefix("torch.") not in DTYPES.values():
        return f"safetensors cannot store {tensor.dtype}"
    hook = gradient_hook_of(tensor)
    return f"it has a gradient hook ({hook}), which would be lost; remove it first" if hook else ""
