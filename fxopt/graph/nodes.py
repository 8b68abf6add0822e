"""Questions asked of a graph and its nodes. All code here only reads.

The facts that capture records about a node lie in ``node.meta`` under these keys:

- ``"tensor_info"``: a `TensorInfo`, or tuples, lists and dicts of them, for the value of the node;
- ``"nn_module_stack"``: as in torch, ``{key: (dotted path, class or class name)}``, outermost first;
- ``"source"``: the `SourceLine` of the user's model that made the call.

Graphs from other tracers carry ``"val"``, ``"tensor_meta"`` or ``"stack_trace"`` instead, which are
read as well.
"""

from __future__ import annotations

import linecache
import re
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from fxopt.graph.module_table import MODULES
from fxopt.graph.operators import name_of


@dataclass(frozen=True)
class TensorInfo:
    """The known facts about a tensor without running the graph.

    A size in ``shape`` is an int, or the readable name of a free size: ``"batch"``, ``"12*batch"``.
    """

    shape: tuple[int | str, ...]
    dtype: torch.dtype
    device: torch.device = torch.device("cpu")  # noqa: RUF009 - a device is immutable

    @classmethod
    def of(cls, tensor: torch.Tensor) -> TensorInfo:
        shape = tuple(size if type(size) is int else str(size) for size in tensor.shape)
        return cls(shape, tensor.dtype, tensor.device)

    def __str__(self) -> str:
        sizes = " x ".join(map(str, self.shape)) or "scalar"
        return f"{str(self.dtype).removeprefix('torch.')} {sizes}"


@dataclass(frozen=True)
class SourceLine:
    """A line of the user's model."""

    file: str
    line: int
    function: str

    @property
    def text(self) -> str:
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        return f"{self.file}:{self.line} ({self.function})"


def info_of(node: Node) -> TensorInfo | None:
    """Return the shape and dtype of the one tensor that `node` returns, if they are known."""
    known = node.meta.get("tensor_info")
    if known is None:
        known = node.meta.get("val", node.meta.get("example_value"))
    if known is None:
        known = node.meta.get("tensor_meta")
        if known is not None and hasattr(known, "shape") and hasattr(known, "dtype"):
            return TensorInfo(tuple(known.shape), known.dtype)
    if isinstance(known, torch.Tensor):
        return TensorInfo.of(known)
    return known if isinstance(known, TensorInfo) else None


_TENSOR_MODULES = tuple(MODULES)
_NOT_ONE_TENSOR = {"size", "stride", "dim", "item", "tolist", "numel", "ndimension", "is_contiguous", "get_device",
                   "numpy", "is_tensor", "sym_size", "sym_numel", "sym_stride", "sym_storage_offset",
                   "_local_scalar_dense", "split", "split_with_sizes", "chunk", "unbind", "max", "min", "sort", "topk",
                   "meshgrid", "var_mean", "std_mean", "_native_batch_norm_legit_no_training"}  # fmt: skip
"""Functions and methods that give, or may give, something else: numbers, answers, several tensors."""


def is_tensor(node: Node, _depth: int = 0) -> bool:
    """Return whether `node` is known to return one tensor: by its metadata, or by its target.

    False means "not proven", not "proven otherwise".
    """
    if info_of(node) is not None:
        return True
    if any(key in node.meta for key in ("tensor_info", "val", "example_value")):
        return False
    owner = node.graph.owning_module
    if node.op == "placeholder":
        return node.type in (torch.Tensor, "torch.Tensor", "Tensor")  # text under `from __future__ import annotations`
    if node.op == "get_attr":
        return owner is not None and isinstance(attribute_of(owner, str(node.target)), torch.Tensor)
    if node.op == "call_module":
        return isinstance(module_of(node), _TENSOR_MODULES)
    if node.op == "call_method":
        return node.target not in _NOT_ONE_TENSOR and is_tensor_operand(node, _depth)
    if node.op != "call_function":
        return False
    module, name = getattr(node.target, "__module__", None) or "", operation_name(node)
    if module == "_operator":
        return (name != "getitem" and is_tensor_operand(node, _depth)) or (
            name == "getitem" and isinstance(node.args[0], Node) and _depth < 50
            and is_tensor(node.args[0], _depth + 1)
        )  # fmt: skip
    from_torch = module.startswith("torch") or "torch" in type(node.target).__module__
    return from_torch and name not in _NOT_ONE_TENSOR and is_tensor_operand(node, _depth)


def is_tensor_operand(node: Node, _depth: int = 0) -> bool:
    """Return whether any input of `node` is known to be a tensor."""
    return _depth < 50 and any(is_tensor(other, _depth + 1) for other in node.all_input_nodes)


def attribute_of(root: nn.Module, path: str) -> Any:
    """Return the object at the dotted `path` under `root`; None if there is none."""
    value: Any = root
    for name in path.split("."):
        value = getattr(value, name, None)
        if value is None:
            return None
    return value


def module_of(node: Node) -> nn.Module | None:
    """Return the submodule that `node` calls, if it calls one."""
    owner = node.graph.owning_module
    if node.op != "call_module" or owner is None:
        return None
    return owner.get_submodule(str(node.target))


def module_stack_of(node: Node) -> tuple[tuple[str, str], ...]:
    """Return the modules that were running when `node` was recorded: (dotted path, class name), outermost first.

    The root module, whose path is empty, is left out. A ``call_module`` node lies in the module that
    makes the call.
    """
    stack = []
    for path, kind in stack_around(node).values():
        path = _dotted(path)
        name = kind.__name__ if isinstance(kind, type) else str(kind).rpartition(".")[2]
        if path:
            stack.append((path, name))
    if not stack and node.op in ("call_module", "get_attr") and "." in str(node.target):
        parts = str(node.target).split(".")[:-1]
        stack = [(".".join(parts[: depth + 1]), "") for depth in range(len(parts))]
    return tuple(stack)


def stack_around(node: Node) -> dict[Any, tuple[str, Any]]:
    """Return ``node.meta["nn_module_stack"]`` without the module that `node` itself calls, which torch.fx counts in."""
    stack = node.meta.get("nn_module_stack") or {}
    called = node.target if node.op == "call_module" else None
    return {key: (path, kind) for key, (path, kind) in stack.items() if called is None or _dotted(path) != called}


def _dotted(path: str) -> str:
    return re.sub(r"^L\['self'\]\.?|^L__self___?", "", path)


def source_of(node: Node) -> SourceLine | None:
    """Return the line of the user's model that made `node`, if it is known."""
    source = node.meta.get("source")
    if isinstance(source, SourceLine):
        return source
    trace = re.findall(r'File "(.*?)", line (\d+), in (.*)', node.meta.get("stack_trace") or "")
    trace = [frame for frame in trace if not frame[0].startswith(torch.__path__[0])]  # the tracer's own
    return SourceLine(trace[-1][0], int(trace[-1][1]), trace[-1][2]) if trace else None


def target_name(node: Node) -> str:
    """Return the target of `node` in words: ``torch.matmul``, ``.view``, ``encoder.layer.0.dense``."""
    if node.op == "call_method":
        return f".{node.target}"
    if node.op != "call_function":
        return str(node.target)
    name = getattr(node.target, "__name__", None) or str(node.target)
    module = getattr(node.target, "__module__", None) or ""
    if isinstance(node.target, torch._ops.OpOverload):
        return str(node.target)
    module = {"_operator": "operator", "torch._C._nn": "F", "torch.nn.functional": "F"}.get(module, module)
    if module.startswith("torch._C") or (not module and hasattr(torch, name)):
        module = "torch"
    return f"{module}.{name}" if module and module != "builtins" else name


def operation_name(node: Node) -> str:
    """Return the operator that is called by its name in ATen's list: ``div`` for ``/`` and ``aten.div.Tensor``.

    For other nodes, such as the call of a module, that is an empty string.
    """
    return name_of(node.target, node.op == "call_method") if node.op.startswith("call_") else ""


def inputs_of(node: Node) -> list[Node]:
    """Return the nodes that `node` reads, each once, in the order of its arguments."""
    found: dict[Node, None] = {}
    map_arg((node.args, node.kwargs), lambda other: found.setdefault(other))
    return list(found)


def input_of(node: Node) -> Node | None:
    """Return the node that a call of a one-input module reads, by position or as ``input``; None for another call."""
    given = [*node.args, *node.kwargs.values()]
    if len(given) == 1 and isinstance(given[0], Node) and set(node.kwargs) <= {"input"}:
        return given[0]
    return None


def nodes_by_name(gm: GraphModule) -> dict[str, Node]:
    return {node.name: node for node in gm.graph.nodes}
