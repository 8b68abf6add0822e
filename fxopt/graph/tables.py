"""Tables of one graph module: nodes by name, calls, reads, and members by identity, kept true by every change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule, Node

Registered = nn.Module | torch.Tensor


class GraphTables:
    """Nodes by name and by module, and owners of modules and tensors; see `GraphIndex`."""

    def __init__(self, gm: GraphModule) -> None:
        self.gm = gm
        self.nodes: dict[str, Node] = {node.name: node for node in gm.graph.nodes}
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
                for path in owner_paths(str(node.target)):
                    reads.setdefault(path, {})[name] = node
        return reads

    @cached_property
    def _registered(self) -> dict[int, dict[str, Registered]]:
        registered: dict[int, dict[str, Registered]] = {}
        for path, thing in _registered_in("", self.gm):
            registered.setdefault(id(thing), {})[path] = thing
        return registered

    def module_at(self, path: str) -> nn.Module | None:
        """Return the module registered at the dotted `path`; None if there is none."""
        if path not in self._modules:
            parent, _, name = path.rpartition(".")
            owner = self.module_at(parent)
            self._modules[path] = None if owner is None else owner._modules.get(name)
        return self._modules[path]

    def module_of(self, node: Node) -> nn.Module | None:
        """Return the submodule that `node` calls, if it calls one."""
        return self.module_at(str(node.target)) if node.op == "call_module" else None

    def tensor_at(self, path: str) -> torch.Tensor | None:
        """Return the parameter or buffer registered at the dotted `path`; None if there is none."""
        parent, _, name = path.rpartition(".")
        owner = self.module_at(parent)
        if owner is None:
            return None
        found = owner._parameters.get(name)
        return found if found is not None else owner._buffers.get(name)

    def calls_of(self, module: nn.Module) -> tuple[Node, ...]:
        """Return every node that calls `module`, under any name."""
        return tuple(self._calls.get(id(module), {}).values())

    def reads_of(self, path: str) -> tuple[Node, ...]:
        """Return every ``get_attr`` node that reads the module at `path`, or something in it."""
        return tuple(self._reads.get(path, {}).values())

    def paths_of(self, module: nn.Module) -> tuple[str, ...]:
        """Return every name under which `module` is registered."""
        return tuple(self._registered.get(id(module), ()))

    def owners_of(self, tensor: torch.Tensor) -> tuple[str, ...]:
        """Return every name under which a parameter or buffer is registered."""
        return tuple(self._registered.get(id(tensor), ()))

    def sites(self, targets: tuple[Any, ...]) -> Iterator[Node]:
        """Yield the nodes that call one of `targets` (functions, method names, module types), in order."""
        kinds = tuple(target for target in targets if isinstance(target, type))
        others = {target for target in targets if not isinstance(target, type)}
        for node in list(self.gm.graph.nodes):
            if node.op == "call_module":
                if kinds and isinstance(self.module_of(node), kinds):
                    yield node
            elif node.op in ("call_function", "call_method") and node.target in others:
                yield node

    # ---- kept true by primitive changes

    def touched(self) -> None:
        """Note that some change was made."""

    def added(self, node: Node) -> None:
        self.touched()
        self.nodes[node.name] = node
        self._link(node)

    def removing(self, node: Node) -> None:
        self.touched()
        del self.nodes[node.name]
        self._unlink(node)

    def changing(self, node: Node) -> None:
        """Note that `node` is about to call something else; `changed` follows."""
        self._unlink(node)

    def changed(self, node: Node) -> None:
        self.touched()
        self._link(node)

    def member_changed(self, path: str, old: Registered | None, new: Registered | None) -> None:
        """Note that `new` was registered in place of `old`, both modules or both tensors."""
        self.touched()
        if "_registered" in self.__dict__:
            for name, thing in _registered_in(path, old):
                _discard(self._registered, id(thing), name)
            for name, thing in _registered_in(path, new):
                self._registered.setdefault(id(thing), {})[name] = thing
        if not isinstance(old, torch.Tensor) and not isinstance(new, torch.Tensor):
            self._module_changed(path, old, new)

    def _module_changed(self, path: str, old: nn.Module | None, new: nn.Module | None) -> None:
        self._modules = {"": self.gm} if old is not None and old._modules else self._modules
        self._modules[path] = new
        if "_calls" in self.__dict__ and old is not None:
            moved = {n: node for n, node in self._calls.get(id(old), {}).items() if node.target == path}
            for name, node in moved.items():
                del self._calls[id(old)][name]
                if new is not None:
                    self._calls.setdefault(id(new), {})[name] = node

    def _link(self, node: Node) -> None:
        """Enter `node` by the modules that it calls or reads."""
        if node.op == "call_module" and "_calls" in self.__dict__:
            self._calls.setdefault(id(self.module_of(node)), {})[node.name] = node
        if node.op == "get_attr" and "_reads" in self.__dict__:
            for path in owner_paths(str(node.target)):
                self._reads.setdefault(path, {})[node.name] = node

    def _unlink(self, node: Node) -> None:
        if node.op == "call_module":
            _discard(self.__dict__.get("_calls"), id(self.module_of(node)), node.name)
        if node.op == "get_attr":
            for path in owner_paths(str(node.target)):
                _discard(self.__dict__.get("_reads"), path, node.name)


def _registered_in(path: str, thing: Registered | None) -> Iterator[tuple[str, Registered]]:
    """Yield the tensor at `path`; or the module there, and all modules, parameters and buffers in it, by all names."""
    if isinstance(thing, torch.Tensor):
        yield path, thing
    todo = [(path, thing)] if isinstance(thing, nn.Module) else []
    while todo:
        path, module = todo.pop()
        yield path, module
        prefix = f"{path}." if path else ""
        for table in (module._parameters, module._buffers):
            for name, tensor in table.items():
                if tensor is not None:
                    yield prefix + name, tensor
        for name, child in reversed(module._modules.items()):
            if child is not None:
                todo.append((prefix + name, child))


def owner_paths(target: str) -> Iterable[str]:
    """Yield the dotted path itself and each path that it lies in."""
    yield target
    while "." in target:
        target = target.rpartition(".")[0]
        yield target


def _discard(table: dict[Any, dict[str, Any]] | None, key: Any, name: str) -> None:
    if table is not None and key in table:
        table[key].pop(name, None)
