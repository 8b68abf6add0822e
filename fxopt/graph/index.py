"""Look-ups over one graph module that would be quadratic by walking the graph each time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import nn
from torch.fx import GraphModule, Node

from fxopt.graph.effects import Effects, effects_of, writes_in_place
from fxopt.graph.metadata import reads_metadata_only
from fxopt.graph.nodes import inputs_of

T = TypeVar("T")
Registered = nn.Module | torch.Tensor


class GraphIndex:
    """Nodes by name and by module, owners of modules and tensors, and writers, of one graph module.

    Primitive changes keep it true; whoever edits the graph by hand builds a new one.
    """

    def __init__(self, gm: GraphModule) -> None:
        self.gm = gm
        self.nodes: dict[str, Node] = {node.name: node for node in gm.graph.nodes}
        self._cache: dict[Any, Any] = {}
        self._of_run: dict[Any, Any] = {}
        self._edited = False
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
    def _registered(self) -> dict[int, dict[str, Registered]]:
        registered: dict[int, dict[str, Registered]] = {}
        for path, thing in _registered_in("", self.gm):
            registered.setdefault(id(thing), {})[path] = thing
        return registered

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
        return tuple(self._registered.get(id(module), ()))

    def owners_of(self, tensor: torch.Tensor) -> tuple[str, ...]:
        """Every name under which a parameter or buffer is registered."""
        return tuple(self._registered.get(id(tensor), ()))

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

    def cached_for_a_run(self, key: Any, compute: Callable[[], T]) -> T:
        """Return the answer of `compute`, remembered under `key` until a run of a pass begins after an edit.

        It is for what a pass asks of the whole graph, which none of its own changes alters for the nodes that follow.
        """
        if key not in self._of_run:
            self._of_run[key] = compute()
        found: T = self._of_run[key]
        return found

    def begin_run(self) -> None:
        """Forget what was remembered for a run, if the graph was edited since."""
        if self._edited:
            self._of_run.clear()
            self._edited = False

    # ---- writes to memory

    @property
    def writers(self) -> tuple[Node, ...]:
        """The nodes that may change memory in place, in order."""
        return tuple(self._writers)

    def effects(self, node: Node) -> Effects:
        """The memory effects of `node`."""
        return effects_of(node, self.module_of(node))

    @cached_property
    def _writers(self) -> list[Node]:
        return [node for node in self.gm.graph.nodes if self._writes(node)]

    def _writes(self, node: Node) -> bool:
        return bool(self.effects(node).written)

    def writes_between(self, first: Node, last: Node, tensor: Node) -> Node | None:
        """A node after `first` and before `last` that may change the memory of `tensor` in place."""
        writers = self._writers
        for writer in writers[bisect_right(writers, first) : bisect_left(writers, last)]:
            if any(self.may_share_memory(target, tensor) for target in self.effects(writer).written):
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
        return bool(self.origins(a) & self.origins(b))

    def origins(self, node: Node) -> set[Node]:
        """`node`, and all that it may be a view of."""
        seen: set[Node] = set()
        todo = [node]
        while todo:
            current = todo.pop()
            if current not in seen:
                seen.add(current)
                if not self.is_fresh(current):
                    todo.extend(other for other in inputs_of(current) if not reads_metadata_only(current, other))
        return seen

    def is_fresh(self, node: Node) -> bool:
        """Whether `node` is known to return memory of its own, or nothing that has any, as ``x.shape``."""
        return self.effects(node).returns_new_memory

    # ---- kept true by primitive changes

    def touched(self) -> None:
        """Some change was made."""
        self._cache.clear()
        self._edited = True

    def rearranged(self) -> None:
        """Nodes were moved."""
        self.touched()
        self.__dict__.pop("_writers", None)

    def renew(self) -> None:
        """Something else changed the graph module, so look at all of it again."""
        self.__dict__ = GraphIndex(self.gm).__dict__

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

    def member_changed(self, path: str, old: Registered | None, new: Registered | None) -> None:
        """`new` was registered in place of `old`, both modules or both tensors."""
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
        if writes_in_place(old) or writes_in_place(new):
            self.__dict__.pop("_writers", None)

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


def _registered_in(path: str, thing: Registered | None) -> Iterator[tuple[str, Registered]]:
    """The tensor at `path`; or the module there, and all modules, parameters and buffers in it, under every name."""
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


def _owner_paths(target: str) -> Iterable[str]:
    """The dotted path itself and each path that it lies in."""
    yield target
    while "." in target:
        target = target.rpartition(".")[0]
        yield target


def _discard(table: dict[Any, dict[str, Any]] | None, key: Any, name: str) -> None:
    if table is not None and key in table:
        table[key].pop(name, None)
