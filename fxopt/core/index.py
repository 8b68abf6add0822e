"""Look-ups over one graph module that would be quadratic by walking the graph each time."""

from __future__ import annotations

import operator
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import nn
from torch.fx import GraphModule, Node

from fxopt.core.graph import inputs_of, operation_name

T = TypeVar("T")

_FRESH_MODULES = (nn.Linear, nn.modules.conv._ConvNd, nn.LayerNorm, nn.Embedding, nn.GELU, nn.Tanh,
                  nn.Sigmoid, nn.SiLU, nn.Softmax, nn.modules.batchnorm._BatchNorm, nn.GroupNorm)  # fmt: skip
_FRESH_NAMES = {"linear", "matmul", "bmm", "baddbmm", "einsum", "conv1d", "conv2d", "conv3d", "add", "sub",
                "mul", "div", "truediv", "true_divide", "neg", "pow", "softmax", "log_softmax", "gelu", "silu",
                "tanh", "sigmoid", "layer_norm", "embedding", "cat", "stack", "rsqrt", "sqrt", "exp", "mean",
                "sum", "scaled_dot_product_attention", "ones", "zeros", "arange", "full", "ones_like",
                "zeros_like", "clone", "eq", "ne", "lt", "le", "gt", "ge", "masked_fill", "where",
                "bitwise_and", "bitwise_or", "and_", "or_", "invert", "pad", "conv_transpose1d", "conv_transpose2d",
                "conv_transpose3d", "convolution", "addmm", "mm", "batch_norm"}  # fmt: skip
_IN_PLACE_OPERATORS = {operator.setitem, operator.iadd, operator.isub, operator.imul, operator.itruediv,
                       operator.ifloordiv, operator.imod, operator.ipow, operator.imatmul, operator.iand,
                       operator.ior, operator.ixor, operator.ilshift, operator.irshift}  # fmt: skip


class GraphIndex:
    """Nodes by name and by module, owners of modules and tensors, and writers, of one graph module.

    The rewriter's edits keep it true; whoever edits the graph by hand builds a new one.
    """

    def __init__(self, gm: GraphModule) -> None:
        self.gm = gm
        self.nodes: dict[str, Node] = {node.name: node for node in gm.graph.nodes}
        self._cache: dict[Any, Any] = {}
        self._modules: dict[str, nn.Module | None] = {"": gm}

    @cached_property
    def _calls(self) -> dict[int, dict[str, Node]]:
        calls: dict[int, dict[str, Node]] = {}
        for name, node in self.nodes.items():
            if node.op == "call_module":
                calls.setdefault(id(self.module_at(str(node.target))), {})[name] = node
        return calls

    @cached_property
    def _reads(self) -> dict[str, dict[str, Node]]:
        reads: dict[str, dict[str, Node]] = {}
        for name, node in self.nodes.items():
            if node.op == "get_attr":
                for path in _owner_paths(str(node.target)):
                    reads.setdefault(path, {})[name] = node
        return reads

    @cached_property
    def _paths(self) -> dict[int, dict[str, nn.Module]]:
        paths: dict[int, dict[str, nn.Module]] = {}
        for path, module in self.gm.named_modules(remove_duplicate=False):
            paths.setdefault(id(module), {})[path] = module
        return paths

    @cached_property
    def _owners(self) -> dict[int, dict[str, torch.Tensor]]:
        owners: dict[int, dict[str, torch.Tensor]] = {}
        for path, module in self.gm.named_modules(remove_duplicate=False):
            for name, tensor in _own_tensors(module):
                owners.setdefault(id(tensor), {})[f"{path}.{name}" if path else name] = tensor
        return owners

    def module_at(self, path: str) -> nn.Module | None:
        """The module registered at the dotted `path`; None where there is none."""
        if path not in self._modules:
            parent, _, name = path.rpartition(".")
            owner = self.module_at(parent)
            self._modules[path] = None if owner is None else owner._modules.get(name)
        return self._modules[path]

    def module_of(self, node: Node) -> nn.Module | None:
        """The submodule that `node` calls, if it calls one."""
        return self.module_at(str(node.target)) if node.op == "call_module" else None

    def tensor_at(self, path: str) -> torch.Tensor | None:
        """The parameter or buffer registered at the dotted `path`; None where there is none."""
        parent, _, name = path.rpartition(".")
        owner = self.module_at(parent)
        if owner is None:
            return None
        found = owner._parameters.get(name)
        return found if found is not None else owner._buffers.get(name)

    def calls_of(self, module: nn.Module) -> tuple[Node, ...]:
        """Every node that calls `module`, under whatever name."""
        return tuple(self._calls.get(id(module), {}).values())

    def reads_of(self, path: str) -> tuple[Node, ...]:
        """Every ``get_attr`` node that reads the module at `path`, or something in it."""
        return tuple(self._reads.get(path, {}).values())

    def paths_of(self, module: nn.Module) -> tuple[str, ...]:
        """Every name under which `module` is registered."""
        return tuple(self._paths.get(id(module), ()))

    def owners_of(self, tensor: torch.Tensor) -> tuple[str, ...]:
        """Every name under which a parameter or buffer is registered."""
        return tuple(self._owners.get(id(tensor), ()))

    def sites(self, targets: tuple[Any, ...]) -> Iterator[Node]:
        """The nodes that call one of `targets` (functions, method names, module types), in order."""
        kinds = tuple(target for target in targets if isinstance(target, type))
        others = {target for target in targets if not isinstance(target, type)}
        for node in list(self.gm.graph.nodes):
            if node.op == "call_module":
                if kinds and isinstance(self.module_of(node), kinds):
                    yield node
            elif node.op in ("call_function", "call_method") and node.target in others:
                yield node

    def cached(self, key: Any, compute: Callable[[], T]) -> T:
        """What `compute` answers, remembered under `key` until the next edit of the graph."""
        if key not in self._cache:
            self._cache[key] = compute()
        found: T = self._cache[key]
        return found

    # ---- writes to memory

    @cached_property
    def _writers(self) -> list[Node]:
        return [node for node in self.gm.graph.nodes if self._writes(node)]

    def _writes(self, node: Node) -> bool:
        if node.op == "call_method":
            name = str(node.target)
            return (name.endswith("_") and not name.endswith("__")) or name == "__setitem__"
        if node.op == "call_module":
            return bool(getattr(self.module_of(node), "inplace", False))
        if node.op != "call_function":
            return False
        if node.target in _IN_PLACE_OPERATORS or node.kwargs.get("inplace") or node.kwargs.get("out") is not None:
            return True
        schema = getattr(node.target, "_schema", None)
        if schema is not None:
            return bool(schema.is_mutable)
        name = getattr(node.target, "__name__", "")
        return name.endswith("_") and not name.endswith("__") and name not in ("and_", "or_", "not_", "is_")

    def writes_between(self, first: Node, last: Node, tensor: Node) -> Node | None:
        """A node after `first` and before `last` that may change the memory of `tensor` in place."""
        writers = self._writers
        for writer in writers[bisect_right(writers, first) : bisect_left(writers, last)]:
            if any(self.may_share_memory(target, tensor) for target in inputs_of(writer)):
                return writer
        return None

    # ---- regions

    @cached_property
    def _autocast_regions(self) -> list[tuple[Node, Node | None]]:
        """The calls that enter and exit autocast. No pass adds or moves one."""
        regions: list[tuple[Node, Node | None]] = []
        for node in self.gm.graph.nodes:
            if node.op == "call_function" and getattr(node.target, "__name__", "") == "_enter_autocast":
                ends = (user for user in node.users if getattr(user.target, "__name__", "") == "_exit_autocast")
                regions.append((node, next(ends, None)))
        return regions

    def autocast_around(self, node: Node) -> Node | None:
        """The call that enters the innermost autocast region in which `node` runs; None outside of any."""
        for enter, leave in reversed(self._autocast_regions):
            if enter < node and (leave is None or node < leave):
                return enter
        return None

    # ---- memory shared

    def may_share_memory(self, a: Node, b: Node) -> bool:
        """Whether one of two tensors may be a view of the other, or both of a third. False is proven."""
        return bool(self._origins(a) & self._origins(b))

    def _origins(self, node: Node) -> set[Node]:
        seen: set[Node] = set()
        todo = [node]
        while todo:
            current = todo.pop()
            if current not in seen:
                seen.add(current)
                if not self.is_fresh(current):
                    todo.extend(inputs_of(current))
        return seen

    def is_fresh(self, node: Node) -> bool:
        """Whether `node` is known to return memory of its own."""
        if node.op == "call_module":
            return returns_new_memory(self.module_of(node))
        if self._writes(node):
            return False
        return node.op in ("call_function", "call_method") and operation_name(node) in _FRESH_NAMES

    # ---- kept true by the edits

    def touched(self) -> None:
        """Some edit was made."""
        self._cache.clear()

    def rearranged(self) -> None:
        """Nodes were moved."""
        self.touched()
        self.__dict__.pop("_writers", None)

    def renew(self) -> None:
        """Something else than the edits changed the graph module, so look at all of it again."""
        fresh = GraphIndex(self.gm).__dict__
        self.__dict__.clear()
        self.__dict__.update(fresh)

    def added(self, node: Node) -> None:
        self.touched()
        self.nodes[node.name] = node
        self._link(node)

    def removing(self, node: Node) -> None:
        self.touched()
        del self.nodes[node.name]
        self._unlink(node)

    def changing(self, node: Node) -> None:
        """`node` is about to call something else; `changed` follows."""
        self._unlink(node)

    def changed(self, node: Node) -> None:
        self.touched()
        self._link(node)

    def module_changed(self, path: str, old: nn.Module | None, new: nn.Module | None) -> None:
        self.touched()
        self._modules = {"": self.gm} if old is not None and old._modules else self._modules
        self._modules[path] = new
        for name, module in _tree(path, old):
            _discard(self.__dict__.get("_paths"), id(module), name)
            for key, tensor in _own_tensors(module):
                _discard(self.__dict__.get("_owners"), id(tensor), f"{name}.{key}")
        for name, module in _tree(path, new):
            if "_paths" in self.__dict__:
                self._paths.setdefault(id(module), {})[name] = module
            if "_owners" in self.__dict__:
                for key, tensor in _own_tensors(module):
                    self._owners.setdefault(id(tensor), {})[f"{name}.{key}"] = tensor
        if "_calls" in self.__dict__ and old is not None:
            moved = {n: node for n, node in self._calls.get(id(old), {}).items() if node.target == path}
            for name, node in moved.items():
                del self._calls[id(old)][name]
                if new is not None:
                    self._calls.setdefault(id(new), {})[name] = node
        if any(getattr(module, "inplace", False) for module in (old, new)):
            self.__dict__.pop("_writers", None)

    def tensor_changed(self, path: str, old: torch.Tensor | None, new: torch.Tensor | None) -> None:
        self.touched()
        if old is not None:
            _discard(self.__dict__.get("_owners"), id(old), path)
        if new is not None and "_owners" in self.__dict__:
            self._owners.setdefault(id(new), {})[path] = new

    def _link(self, node: Node) -> None:
        if node.op == "call_module" and "_calls" in self.__dict__:
            self._calls.setdefault(id(self.module_of(node)), {})[node.name] = node
        if node.op == "get_attr" and "_reads" in self.__dict__:
            for path in _owner_paths(str(node.target)):
                self._reads.setdefault(path, {})[node.name] = node
        if self._writes(node):
            self.__dict__.pop("_writers", None)

    def _unlink(self, node: Node) -> None:
        if node.op == "call_module":
            _discard(self.__dict__.get("_calls"), id(self.module_of(node)), node.name)
        if node.op == "get_attr":
            for path in _owner_paths(str(node.target)):
                _discard(self.__dict__.get("_reads"), path, node.name)
        if self._writes(node):
            self.__dict__.pop("_writers", None)


def returns_new_memory(module: nn.Module | None) -> bool:
    """Whether `module` is known to return memory of its own."""
    return isinstance(module, _FRESH_MODULES) and not getattr(module, "inplace", False)


def _own_tensors(module: nn.Module) -> Iterable[tuple[str, torch.Tensor]]:
    for table in (module._parameters, module._buffers):
        for name, tensor in table.items():
            if tensor is not None:
                yield name, tensor


def _tree(path: str, module: nn.Module | None) -> Iterable[tuple[str, nn.Module]]:
    if module is None or not module._modules:
        return () if module is None else ((path, module),)
    return module.named_modules(prefix=path, remove_duplicate=False)


def _owner_paths(target: str) -> Iterable[str]:
    """The dotted path itself and each path that it lies in."""
    yield target
    while "." in target:
        target = target.rpartition(".")[0]
        yield target


def _discard(table: dict[Any, dict[str, Any]] | None, key: Any, name: str) -> None:
    if table is not None and key in table:
        table[key].pop(name, None)
