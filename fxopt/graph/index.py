"""Look-ups over one graph module that would be quadratic by walking the graph each time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import nn
from torch.fx import GraphModule, Node

from fxopt.graph.effects import Effects, effects_of, writes_in_place
from fxopt.graph.metadata import reads_metadata_only
from fxopt.graph.nodes import attribute_of, inputs_of
from fxopt.graph.tables import GraphTables, Registered

T = TypeVar("T")


class GraphIndex(GraphTables):
    """Nodes by name and by module, owners of modules and tensors, and writers, of one graph module.

    Primitive changes keep it true; whoever edits the graph by hand builds a new one.
    """

    def __init__(self, gm: GraphModule) -> None:
        super().__init__(gm)
        self._cache: dict[Any, Any] = {}
        self._of_run: dict[Any, Any] = {}
        self._edited = False

    def __repr__(self) -> str:
        return f"GraphIndex({self.gm._get_name()}, {len(self.nodes)} nodes)"

    def cached(self, key: Any, compute: Callable[[], T]) -> T:
        """Return the answer of `compute`, remembered under `key` until the next edit of the graph."""
        if key not in self._cache:
            self._cache[key] = compute()
        found: T = self._cache[key]
        return found

    def cached_for_a_run(self, key: Any, compute: Callable[[], T]) -> T:
        """Return the answer of `compute`, remembered under `key` until a run of a pass begins after an edit.

        It is for questions of a pass about the whole graph, whose answers its own changes keep for the nodes that
        follow.
        """
        if key not in self._of_run:
            self._of_run[key] = compute()
        found: T = self._of_run[key]
        return found

    def begin_run(self) -> None:
        """Forget the answers remembered for a run, if the graph was edited since."""
        if self._edited:
            self._of_run.clear()
            self._edited = False

    # ---- writes to memory

    @property
    def writers(self) -> tuple[Node, ...]:
        """The nodes that may change memory in place, in order."""
        return tuple(self._writers)

    def effects(self, node: Node) -> Effects:
        """Return the memory effects of `node`."""
        return effects_of(node, self.module_of(node))

    @cached_property
    def _writers(self) -> list[Node]:
        return [node for node in self.gm.graph.nodes if self._writes(node)]

    def _writes(self, node: Node) -> bool:
        return bool(self.effects(node).written)

    def writes_between(self, first: Node, last: Node, tensor: Node) -> Node | None:
        """Return a node after `first` and before `last` that may change the memory of `tensor` in place, if any."""
        writers = self._writers
        for writer in writers[bisect_right(writers, first) : bisect_left(writers, last)]:
            if any(self.may_share_memory(target, tensor) for target in self.effects(writer).written):
                return writer
        return None

    def writer_to_memory_of(self, tensor: torch.Tensor) -> tuple[Node, Node] | None:
        """Return a node that may write to the storage of `tensor`, with the node that reads the tensor written to."""
        if tensor.layout is not torch.strided or not self._writers:
            return None
        found = self.cached_for_a_run("writers to storages", self._writers_to_storages)
        return found.get(tensor.untyped_storage()._cdata)

    def _writers_to_storages(self) -> dict[int, tuple[Node, Node]]:
        found: dict[int, tuple[Node, Node]] = {}
        for writer in self._writers:
            for written in self.effects(writer).written:
                for node in self.origins(written):
                    value = attribute_of(self.gm, str(node.target)) if node.op == "get_attr" else None
                    if isinstance(value, torch.Tensor) and value.layout is torch.strided:
                        found.setdefault(value.untyped_storage()._cdata, (writer, node))
        return found

    # ---- regions

    @cached_property
    def _autocast_regions(self) -> list[tuple[Node, Node | None]]:
        """The calls that enter and exit autocast. Passes leave them where they are."""
        regions: list[tuple[Node, Node | None]] = []
        for node in self.gm.graph.nodes:
            if node.op == "call_function" and getattr(node.target, "__name__", "") == "_enter_autocast":
                ends = (user for user in node.users if getattr(user.target, "__name__", "") == "_exit_autocast")
                regions.append((node, next(ends, None)))
        return regions

    def autocast_around(self, node: Node) -> Node | None:
        """Return the call that enters the innermost autocast region in which `node` runs; None outside of any."""
        for enter, leave in reversed(self._autocast_regions):
            if enter < node and (leave is None or node < leave):
                return enter
        return None

    # ---- memory shared

    def may_share_memory(self, a: Node, b: Node) -> bool:
        """Return whether one of two tensors may be a view of the other, or both of a third. False is proven."""
        return bool(self.origins(a) & self.origins(b))

    def origins(self, node: Node) -> set[Node]:
        """Return `node`, and all that it may be a view of, with every node that reads the same parameter or buffer."""
        seen: set[Node] = set()
        todo = [node]
        while todo:
            current = todo.pop()
            if current not in seen:
                seen.add(current)
                if current.op == "get_attr":
                    todo.extend(self._reads_of_memory(current))
                elif not self.is_fresh(current):
                    todo.extend(other for other in inputs_of(current) if not reads_metadata_only(current, other))
        return seen

    def _reads_of_memory(self, node: Node) -> tuple[Node, ...]:
        """Return the nodes that read the tensor which `node` reads, or another one in the same storage."""
        return self.cached("reads of one memory", self._reads_of_one_memory).get(node, ())

    def _reads_of_one_memory(self) -> dict[Node, tuple[Node, ...]]:
        by_storage: dict[int, list[Node]] = {}
        for node in self.gm.graph.find_nodes(op="get_attr", sort=False):
            value = attribute_of(self.gm, str(node.target))
            if isinstance(value, torch.Tensor) and value.layout is torch.strided:
                by_storage.setdefault(value.untyped_storage()._cdata, []).append(node)
        return {node: tuple(readers) for readers in by_storage.values() for node in readers}

    def is_fresh(self, node: Node) -> bool:
        """Return whether `node` is known to return memory of its own, or a value that has none, as ``x.shape``."""
        return self.effects(node).returns_new_memory

    # ---- kept true by primitive changes

    def touched(self) -> None:
        """Note that some change was made."""
        self._cache.clear()
        self._edited = True

    def rearranged(self) -> None:
        """Note that nodes were moved."""
        self.touched()
        self._forget_writers()

    def renew(self) -> None:
        """Something else changed the graph module, so look at all of it again."""
        self.__dict__ = GraphIndex(self.gm).__dict__

    def member_changed(self, path: str, old: Registered | None, new: Registered | None) -> None:
        super().member_changed(path, old, new)
        if any(isinstance(one, nn.Module) and writes_in_place(one) for one in (old, new)):
            self._forget_writers()

    def _link(self, node: Node) -> None:
        super()._link(node)
        if self._writes(node):
            self._forget_writers()

    def _unlink(self, node: Node) -> None:
        super()._unlink(node)
        if self._writes(node):
            self._forget_writers()

    def _forget_writers(self) -> None:
        self.__dict__.pop("_writers", None)
