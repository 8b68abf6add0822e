"""The only code that changes a graph. Everything it does is recorded."""

from __future__ import annotations

import builtins
import dataclasses
import keyword
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.fx import Node

from fxopt.core.weight_cache import WeightCache
from fxopt.graph.index import GraphIndex
from fxopt.graph.marks import MADE_BY, MARKS, ORIGIN, Origin
from fxopt.graph.nodes import TensorInfo, info_of, stack_around
from fxopt.recording.changes import ABSENT, Change
from fxopt.recording.module_changes import Member, SetMember, table_of
from fxopt.recording.node_changes import EraseNode, InsertNode, ReplaceInput, SetCall, SetMeta
from fxopt.recording.node_record import Call, NodeRecord
from fxopt.recording.patch import Patch

_NOT_IN_A_NAME = re.compile(r"\W", re.ASCII)

_HELD = object()
"""Key of the memo of a run: the ids of modules and tensors that earlier patches in force had put in or taken out."""


@dataclass(frozen=True)
class Run:
    """State that the rewriters of one run of a pass share."""

    orders: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    """Names of the children, parameters and buffers of modules before the run, by path and table."""
    numbers: dict[str, int] = field(default_factory=dict)
    """The numbers that names of new nodes have come to, so that finding a free one stays linear."""
    memo: dict[Any, Any] = field(default_factory=dict)
    """Things that the pass made, for use at its next sites."""
    in_force: tuple[Patch, ...] = ()
    """The patches in force before the run."""


class Rewriter:
    """Changes the graph of `index` around one anchor node, and remembers every change.

    Args:
        index: of the graph module to change; kept true.
        anchor: the node of the site. New nodes go just before it by default.
        pass_name, signature: of the pass, for the marks and origins of the nodes and modules that it makes.
        run: shared by the rewriters of one run of a pass.
    """

    def __init__(
        self,
        index: GraphIndex,
        anchor: Node,
        pass_name: str,
        signature: str,
        run: Run,
    ) -> None:
        self.index = index
        self.anchor = anchor
        self.changes: list[Change] = []
        self._site = anchor.name
        self._pass_name = pass_name
        self.signature = signature
        self._orders = run.orders
        self._numbers = run.numbers
        self.memo = run.memo
        self._in_force = run.in_force
        self._weights = WeightCache.of(index.gm)
        self.marks_anchor = True
        """Whether the anchor is marked as changed. A pass that says no finds out by itself where it was before."""

    def __repr__(self) -> str:
        return f"Rewriter({self._pass_name} at {self._site}, {len(self.changes)} changes)"

    def patch(self) -> Patch:
        """The changes made, with the anchor, if it is still there, marked against a second match."""
        anchor = self.index.nodes.get(self._site)
        if anchor is not None and self.marks_anchor:
            self.mark(anchor)
        return Patch(tuple(self.changes))

    # ---- nodes

    def call_function(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None = None,
        **where: Any,
    ) -> Node:
        """Insert a call of `function`; see `insert` for the rest."""
        name = where.pop("name", None) or getattr(function, "__name__", "call")
        return self.insert("call_function", function, args, kwargs, name=name, **where)

    def call_module(self, path: str, args: tuple[Any, ...], **where: Any) -> Node:
        """Insert a call of the module at the dotted `path`; see `insert` for the rest."""
        name = where.pop("name", None) or path.rpartition(".")[2]
        return self.insert("call_module", path, args, None, name=name, **where)

    def get_attr(self, path: str, **where: Any) -> Node:
        """Insert a node that reads the parameter or buffer at the dotted `path`; see `insert` for the rest."""
        name = where.pop("name", None) or path.replace(".", "_")
        return self.insert("get_attr", path, (), None, name=name, **where)

    def insert(
        self,
        op: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None,
        *,
        name: str,
        before: Node | None = None,
        info: TensorInfo | None = None,
        made_from: tuple[Node, ...] = (),
    ) -> Node:
        """Insert a node.

        Args:
            name: a wish; where it is taken, a number is added.
            before: the node to stand in front of; the anchor if not given.
            info: shape and dtype of the result, for the passes and pictures that come after.
            made_from: the nodes whose work it does; where it was made and by which line of the model is theirs.
        """
        like = made_from[0] if made_from else self.anchor
        meta: dict[str, Any] = {key: like.meta[key] for key in ("source", "stack_trace") if key in like.meta}
        if "nn_module_stack" in like.meta:
            meta["nn_module_stack"] = stack_around(like)
        if info is not None:
            meta["tensor_info"] = info
        meta[ORIGIN] = Origin(self._pass_name, self._site, tuple(node.name for node in made_from))
        meta[MARKS] = (self.signature,)
        call = Call.on_nodes(op, target, args, kwargs or {})
        record = NodeRecord(self._free_name(name), call, meta=meta)
        self._do(InsertNode(record, before=(before or self.anchor).name))
        return self.index.nodes[record.name]

    def set_call(self, node: Node, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Let `node` call something else in its place, under its name, for the same users."""
        around = stack_around(node)
        if op != "call_module" and around != node.meta.get("nn_module_stack", {}):
            self._set_meta(node, "nn_module_stack", around)  # the module that it called is no place that it lies in
        self._do(SetCall(node.name, Call.of(node), Call.on_nodes(op, target, args, kwargs)))
        self.mark(node)

    def mark(self, node: Node) -> None:
        """Mark a node whose work has changed."""
        marks = node.meta.get(MARKS, ())
        if self.signature not in marks:
            self._set_meta(node, MARKS, (*marks, self.signature))

    def set_info(self, node: Node, info: TensorInfo) -> None:
        """Note the shape and dtype that `node` gives from now on."""
        if info != info_of(node):
            self._set_meta(node, "tensor_info", info)

    def _set_meta(self, node: Node, key: str, value: Any) -> None:
        self._do(SetMeta(node.name, key, node.meta.get(key, ABSENT), value))

    def replace(self, old: Node, new: Node) -> None:
        """Let every user of `old` read `new`, then erase `old` and the module that only it called."""
        for user in list(old.users):
            self.redirect(user, old, new)
        self.erase(old)

    def redirect(self, user: Node, old: Node, new: Node) -> None:
        """Let `user` read `new` in the place of `old`."""
        if new in user.all_input_nodes:
            after = Call.on_nodes(user.op, user.target, user.args, user.kwargs, {old: new.name})
            self._do(SetCall(user.name, Call.of(user), after))
        else:
            self._do(ReplaceInput(user.name, old.name, new.name))

    def erase(self, node: Node) -> None:
        """Erase a node without users, and the module that only it called."""
        module = self.index.module_of(node)
        self._do(EraseNode(NodeRecord.of(node), before=node.next.name))
        if module is not None:
            self.remove_unused_module(str(node.target))

    # ---- modules

    def set_module(self, path: str, module: nn.Module, *, called_by: Node | None = None) -> None:
        """Register `module` at the dotted `path`, in place of the one there.

        `called_by` is the node that calls it: its work has changed, so it is marked.
        """
        module.__dict__[MADE_BY] = self.signature
        self._set_module(path, module)
        if called_by is not None:
            self.mark(called_by)

    def remove_unused_module(self, path: str) -> None:
        """Take the module at the dotted `path` out, unless a node still calls or reads it or something in it."""
        module = self.index.module_at(path)
        if module is None or self.index.reads_of(path):
            return
        if not any(self.index.calls_of(child) for child in module.modules()):
            self._set_module(path, None)

    def keep_instead(self, old: Member, new: Member) -> None:
        """Let `new` come back on reversal instead of `old`, which was removed: the same numbers in other memory.

        A tensor that a patch in force put in or took out comes back itself: the patch is undone only if it finds the
        very same again, and may share tensors with those it took out.
        """
        if _HELD not in self.memo:
            both = (side for patch in self._in_force for one in patch.members for side in (one.old, one.new))
            self.memo[_HELD] = {id(part) for side in both for part in _parts(side)}
        if any(id(part) in self.memo[_HELD] for part in _parts(old)):
            return
        for i, change in enumerate(self.changes):
            if isinstance(change, SetMember) and change.old is old:
                self.changes[i] = dataclasses.replace(change, old=new)

    def free_path(self, path: str) -> str:
        """Return `path`, with a number added if it is taken."""
        parent = self.index.module_at(path.rpartition(".")[0])
        free, number = path, 0
        while parent is not None and hasattr(parent, free.rpartition(".")[2]):
            number += 1
            free = f"{path}_{number}"
        return free

    def _set_module(self, path: str, module: nn.Module | None) -> None:
        self._set_member(path, "_modules", self.index.module_at(path), module)

    def _set_member(self, path: str, table: str, old: Member | None, new: Member | None) -> None:
        self._do(SetMember(path, table, old, new, self._order(path, table), self._is_persistent(path)))

    def _order(self, path: str, table: str) -> tuple[str, ...]:
        parent = path.rpartition(".")[0]
        if (parent, table) not in self._orders:
            owner = self.index.module_at(parent)
            self._orders[parent, table] = tuple(getattr(owner, table)) if owner is not None else ()
        return self._orders[parent, table]

    # ---- parameters and buffers that nodes read by ``get_attr``

    def set_tensor(self, path: str, tensor: torch.Tensor) -> None:
        """Register `tensor` at the dotted `path`, in place of the one there: a parameter if it is one, else a buffer.

        The module that it lies in must be the graph module or a plain container of it, never a module of the model.
        """
        old = self.index.tensor_at(path)
        if old is not None and table_of(old) != table_of(tensor):
            self._set_member(path, table_of(old), old, None)
            old = None
        self._set_member(path, table_of(tensor), old, tensor)

    def remove_unused_tensor(self, path: str) -> None:
        """Take the parameter or buffer at the dotted `path` out, unless a node still reads it."""
        tensor = self.index.tensor_at(path)
        if tensor is not None and not self.index.reads_of(path):
            self._set_member(path, table_of(tensor), tensor, None)

    def computed(self, function: Callable[..., tuple[torch.Tensor, ...]], *sources: Any) -> tuple[nn.Parameter, ...]:
        """Return the new weights that `function` computes from `sources`, as parameters.

        They are remembered for as long as the graph module lives and the tensors in `sources` are unchanged, so that a
        site that is switched off and on again reuses them. See `WeightCache`.

        Args:
            function: a module-level function of its arguments alone; gives a tuple of tensors, each with the
                ``requires_grad`` that its parameter is to have.
            sources: tensors, and hashable values.
        """
        return self._weights.computed(function, sources)

    def _is_persistent(self, path: str) -> bool:
        parent, _, name = path.rpartition(".")
        owner = self.index.module_at(parent)
        return owner is None or name not in owner._non_persistent_buffers_set

    # ----

    def make(self, change: Change) -> None:
        """Make a change that was found elsewhere."""
        self._do(change)

    def _do(self, change: Change) -> None:
        change.apply(self.index)
        self.changes.append(change)

    def _free_name(self, wish: str) -> str:
        name = _NOT_IN_A_NAME.sub("_", wish) or "node"
        if name[0].isdigit() or keyword.iskeyword(name) or name in vars(builtins):
            name = f"_{name}"
        free, number = name, self._numbers.get(name, 0)
        while free in self.index.nodes:
            number += 1
            free = f"{name}_{number}"
        self._numbers[name] = number
        return free


def _parts(thing: Member | None) -> Iterator[object]:
    """Yield a module with its parameters and buffers, or a tensor."""
    if thing is not None:
        yield thing
    if isinstance(thing, nn.Module):
        yield from thing.parameters()
        yield from thing.buffers()
