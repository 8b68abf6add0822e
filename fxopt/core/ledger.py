"""The patches in force on a graph module, in the order in which they were made.

The ledger is a child module of the graph module, because that is what survives both `copy.deepcopy` and pickle. It has
no parameters, is never called, and is there only while something is in force.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.fx import GraphModule, Node

from fxopt.core.edit import MARKS, Call, NodeRecord, Patch, SetCall, SetModule, can_be_pickled, run, undo
from fxopt.core.errors import RewriteError
from fxopt.core.graph import target_name
from fxopt.core.index import GraphIndex
from fxopt.core.rewriter import MADE_BY

if TYPE_CHECKING:
    from fxopt.core.pass_base import Exactness, Pass

CHILD = "_fxopt_ledger"


@dataclass(frozen=True, eq=False)  # equality would compare modules
class Entry:
    """One site of one pass, and what was done there."""

    pass_: Pass[Any]
    signature: str
    site: str
    exactness: Exactness
    patch: Patch


class Ledger(nn.Module):
    """What is in force on one graph module; see `Ledger.of`."""

    def __init__(self, gm: GraphModule) -> None:
        super().__init__()
        self.training = gm.training
        self.entries: list[Entry] = []
        self._gm: Callable[[], GraphModule | None] = weakref.ref(gm)
        self._states: dict[int, _State] = {}
        self._unpickled: list[_SavedNode] | None = None

    @classmethod
    def of(cls, gm: GraphModule) -> Ledger:
        """The ledger of `gm`, made if there is none yet. Call `close` when done with it."""
        ledger = gm._modules.get(CHILD)
        if not isinstance(ledger, Ledger):
            ledger = cls(gm)
        if ledger._gm() is not gm:  # the graph module was copied or loaded
            ledger._gm = weakref.ref(gm)
            ledger._states = {i: _State.of(entry.patch) for i, entry in enumerate(ledger.entries)}
        if ledger._unpickled is not None:
            _adopt(gm, ledger._unpickled)
            ledger._unpickled = None
        gm._modules[CHILD] = ledger
        return ledger

    @staticmethod
    def entries_of(gm: GraphModule) -> tuple[Entry, ...]:
        """What is in force on `gm`, the oldest first."""
        ledger = gm._modules.get(CHILD)
        return tuple(ledger.entries) if isinstance(ledger, Ledger) else ()

    def close(self) -> None:
        """Take the ledger off its graph module if nothing is in force."""
        gm = self._gm()
        if gm is not None and not self.entries:
            gm._modules.pop(CHILD, None)

    def append(self, entry: Entry) -> None:
        self._states[len(self.entries)] = _State.of(entry.patch)
        self.entries.append(entry)

    def rewind(self, index: GraphIndex, length: int) -> tuple[Entry, ...]:
        """Undo all but the oldest `length` entries, and give those undone."""
        undone = tuple(self.entries[length:])
        for i in range(length, len(self.entries)):
            self._states[i].check(self.entries[i])
        undo(index, [entry.patch for entry in undone])
        self._drop(length)
        return undone

    def remove(self, index: GraphIndex, signature: str) -> list[Entry]:
        """Undo the entries of one signature; what came later is undone first and then done again.

        Returns:
            the later entries that no longer apply.
        """
        first = next(i for i, entry in enumerate(self.entries) if entry.signature == signature)
        undone = self.rewind(index, first)
        kept = [entry for entry in undone if entry.signature != signature]
        try:
            return self.redo(index, kept)
        except RewriteError:
            self.rewind(index, first)
            run(index, [edit for entry in undone for edit in entry.patch.edits])
            for entry in undone:
                self.append(entry)
            raise

    def redo(self, index: GraphIndex, entries: Sequence[Entry]) -> list[Entry]:
        """Let the passes of `entries` match and rewrite at the same sites again, in runs of one pass.

        Returns:
            the entries whose sites no longer match.
        """
        lost: list[Entry] = []
        i = 0
        while i < len(entries):
            j = i
            while j < len(entries) and entries[j].signature == entries[i].signature:
                j += 1
            sites = {entry.site for entry in entries[i:j]}
            done = {entry.site for entry in entries[i].pass_.apply(index, sites)}
            lost += [entry for entry in entries[i:j] if entry.site not in done]
            i = j
        return lost

    def shared_copy(self) -> Ledger:
        """A ledger of the same entries, for a copy of the graph module."""
        new = Ledger.__new__(Ledger)
        new.__dict__.update(self.__dict__)
        new.entries = list(self.entries)
        return new

    def extra_repr(self) -> str:
        return f"{len(self.entries)} sites in force"

    def _drop(self, length: int) -> None:
        del self.entries[length:]
        self._states = {i: state for i, state in self._states.items() if i < length}

    def __getstate__(self) -> dict[str, Any]:
        gm = self._gm()
        state = dict(self.__dict__)
        mine = gm is not None and gm._modules.get(CHILD) is self
        state["_unpickled"] = _saved(gm) if mine and gm is not None else self._unpickled
        state["_gm"] = state["_states"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._gm = _nothing
        self._states = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> Ledger:
        new = Ledger.__new__(Ledger)
        memo[id(self)] = new
        skipped = ("_gm", "_states", "entries")
        new.__dict__.update(copy.deepcopy({k: v for k, v in self.__dict__.items() if k not in skipped}, memo))
        new.entries = copy.deepcopy(self.entries, memo)
        new._gm = _nothing
        new._states = {}
        return new


def made_by(thing: Node | nn.Module, signature: str) -> bool:
    """Whether a pass of this signature made or changed the node, or made the module."""
    if isinstance(thing, Node):
        return signature in thing.meta.get(MARKS, ())
    return bool(thing.__dict__.get(MADE_BY) == signature)


def _nothing() -> GraphModule | None:
    """The graph module of a ledger that was just copied or loaded: not known yet."""
    return None


@dataclass(frozen=True, eq=False)
class _State:
    """What the modules that a patch put in looked like when it did."""

    tensors: tuple[tuple[str, torch.Tensor, int, torch.dtype, torch.device, bool], ...]

    @classmethod
    def of(cls, patch: Patch) -> _State:
        return cls(
            tuple(
                (
                    f"{edit.path}.{name}",
                    t,
                    0 if t.is_inference() else t._version,
                    t.dtype,
                    t.device,
                    t.requires_grad,
                )
                for edit in patch.edits
                if isinstance(edit, SetModule) and edit.new is not None
                for name, t in edit.new._parameters.items()
                if t is not None
            )
        )

    def check(self, entry: Entry) -> None:
        """Raise if going back would lose what was done to the new modules since."""
        current = _State.of(entry.patch)
        for (path, old, version, dtype, device, trains), (_, new, now, *_) in zip(self.tensors, current.tensors):
            what = ""
            if (new.dtype, new.device) != (dtype, device):
                what = f"was moved from {dtype} on {device} to {new.dtype} on {new.device}"
            elif new is not old or version != now:
                what = "was given other values (trained or loaded)"
            elif new.requires_grad != trains:
                what = f"had requires_grad set to {new.requires_grad}"
            if what:
                raise RewriteError(
                    f"{path}, made by {entry.pass_.name}, {what} since; the way back leads to the tensors of before, "
                    "so this would be lost. Undo that first, or reverse before you do it."
                )


@dataclass(frozen=True)
class _SavedNode:
    """A node as it was: pickling a graph module traces it again, which loses names, metadata and forms of calls."""

    record: NodeRecord
    target: str


def _saved(gm: GraphModule) -> list[_SavedNode]:
    saved = []
    for node in gm.graph.nodes:
        record = NodeRecord.of(node)
        if not can_be_pickled(record.call.target):
            record = replace(record, call=Call(node.op, None, (), {}))  # the traced one will do
        saved.append(_SavedNode(record, _last_part(target_name(node))))
    return saved


def _adopt(gm: GraphModule, saved: list[_SavedNode]) -> None:
    """Make the nodes of a graph module that was just loaded what they were."""
    nodes = list(gm.graph.nodes)
    found = [(node.op, _last_part(target_name(node))) for node in nodes]
    if found != [(known.record.call.op, known.target) for known in saved]:
        raise RewriteError(
            "this graph module was loaded from a pickle, and its nodes are not those that were saved, so nothing "
            "can be reversed in it. Reverse it before saving."
        )
    names = gm.graph._graph_namespace._used_names
    for node, known in zip(nodes, saved):
        names.discard(node.name)
        node.name = known.record.name
        node.meta.update(known.record.meta)
    names.update(known.record.name for known in saved)
    index = GraphIndex(gm)
    for node, known in zip(nodes, saved):
        if known.record.call.target is not None:
            SetCall(node.name, Call.of(node), known.record.call).apply(index)


def _last_part(target: str) -> str:
    return target.rpartition(".")[2]
