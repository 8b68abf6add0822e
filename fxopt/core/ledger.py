"""The patches in force on a graph module, in the order in which they were made.

The ledger is a child module of the graph module, because children survive both `copy.deepcopy` and pickle. It has no
parameters, is never called, and is there only while a patch is in force.
"""

from __future__ import annotations

import copy
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import nn
from torch.fx import GraphModule

from fxopt.core.entry import Entry
from fxopt.core.following import Follower, present_after, present_in, with_tensors_of
from fxopt.core.gate import about_to_change, is_acting, transact
from fxopt.core.patch_state import PatchState
from fxopt.core.saving import NotSaved, SavedNode, adopt, choose_tracer, saved_nodes
from fxopt.errors import FxoptWarning, RewriteError
from fxopt.graph.copying import shared_copy
from fxopt.graph.index import GraphIndex
from fxopt.graph.marks import LEDGER
from fxopt.graph.tensor_state import storages_of, tensors_held_by
from fxopt.process.garbage import without_collection
from fxopt.recording.node_record import can_be_pickled
from fxopt.recording.patch import Patch, run, undo

T = TypeVar("T")


class Ledger(nn.Module):
    """The patches in force on one graph module; see `Ledger.of`."""

    def __init__(self, gm: GraphModule) -> None:
        super().__init__()
        self.training = gm.training
        self.entries: list[Entry] = []
        self._gm: Callable[[], GraphModule | None] = weakref.ref(gm)
        self._moved = False
        self._is_trial = False
        self._output: str | None = None
        self._unpickled: list[SavedNode] | None = None

    @classmethod
    def of(cls, gm: GraphModule) -> Ledger:
        """Return the ledger of `gm`, made and registered if there is none yet.

        After an act, an empty one is taken off; a caller outside of any act calls `close`.
        """
        ledger, pending = cls._registered(gm)
        if pending:
            if is_acting(gm):
                ledger._catch_up(gm)
            else:
                act(gm, lambda: None)
            gm._modules[LEDGER] = ledger
        return ledger

    @classmethod
    def _registered(cls, gm: GraphModule) -> tuple[Ledger, bool]:
        """Return the ledger of `gm`, and whether it has yet to `_catch_up`."""
        ledger = gm._modules.get(LEDGER)
        if not isinstance(ledger, Ledger):
            ledger = cls(gm)
        if ledger._gm() is not gm:  # the graph module was loaded, or built from another
            ledger._gm = weakref.ref(gm)
        gm._modules[LEDGER] = ledger
        choose_tracer(gm)
        return ledger, ledger._output is not None or ledger._moved or ledger._unpickled is not None

    def _catch_up(self, gm: GraphModule) -> None:
        """Take over the changes of the graph module by a copy, a file, or a conversion of all of it."""
        if self._output is not None:
            _rename_output(gm, self._output)
            self._output = None
        if self._moved:
            self._settle(gm)
        if self._unpickled is not None:
            adopt(gm, self._unpickled)
            self._unpickled = None

    @classmethod
    def carried(cls, known: nn.Module | None, given: GraphModule, result: GraphModule) -> Ledger:
        """Return the ledger of `result`, with the entries of `known`, that of `given` before its transformation."""
        result._modules.pop(LEDGER, None)
        if isinstance(known, Ledger):
            result._modules[LEDGER] = known if result is given else known.shared_copy(result)
        return cls.of(result)

    @staticmethod
    def entries_of(gm: GraphModule) -> tuple[Entry, ...]:
        """Return the entries in force on `gm`, the oldest first."""
        ledger = gm._modules.get(LEDGER)
        return tuple(ledger.entries) if isinstance(ledger, Ledger) else ()

    def close(self) -> None:
        """Take an empty ledger off its graph module, unless an act is under way that will."""
        gm = self._gm()
        if gm is not None and not self.entries and gm._modules.get(LEDGER) is self and not is_acting(gm):
            del gm._modules[LEDGER]
            choose_tracer(gm)

    @staticmethod
    def detach(gm: GraphModule) -> None:
        """Take the ledger off `gm`, for good or until it is registered again."""
        gm._modules.pop(LEDGER, None)

    def append(self, entry: Entry) -> None:
        self.entries.append(entry.renewed())

    def rewind(self, index: GraphIndex, length: int) -> tuple[Entry, ...]:
        """Undo all but the oldest `length` entries, and give those undone."""
        return act(index.gm, lambda: self._rewind(index, length), index=index, part=True)

    @without_collection
    def _rewind(self, index: GraphIndex, length: int) -> tuple[Entry, ...]:
        undone = tuple(self.entries[length:])
        for i in range(length, len(self.entries)):
            self._check(i)
        about_to_change(index.gm)
        undo(index, [entry.patch for entry in undone])
        del self.entries[length:]
        return undone

    def remove(self, index: GraphIndex, *signatures: str) -> list[Entry]:
        """Undo the entries of these signatures; later entries are undone first and then done again.

        Returns:
            the later entries that no longer apply.
        """
        return self._take_out(index, lambda entry: entry.signature in signatures)

    def turn_off(self, index: GraphIndex, site: str) -> list[Entry]:
        """Undo the entry whose id is `site`, as `remove` does with all of a signature."""
        return self._take_out(index, lambda entry: entry.id == site)

    def undo_entry(self, index: GraphIndex, entry: Entry) -> list[Entry]:
        """Undo one entry, as `remove` does with all of a signature."""
        return self._take_out(index, lambda other: other is entry)

    def _take_out(self, index: GraphIndex, unwanted: Callable[[Entry], bool]) -> list[Entry]:
        def taken_out() -> list[Entry]:
            first = next(i for i, entry in enumerate(self.entries) if unwanted(entry))
            undone = self.rewind(index, first)
            return self.redo(index, [entry for entry in undone if not unwanted(entry)])

        return act(index.gm, taken_out, index=index)

    def put_back(self, index: GraphIndex, entries: Sequence[Entry]) -> None:
        """Let the patches of `entries` apply once more, behind those that are in force."""
        about_to_change(index.gm)
        run(index, [change for entry in entries for change in entry.patch.changes])
        for entry in entries:
            self.append(entry)

    def redo(self, index: GraphIndex, entries: Sequence[Entry]) -> list[Entry]:
        """Let the passes of `entries` match and rewrite at the same sites again, in runs of one pass.

        Returns:
            the entries whose sites no longer match.
        """
        return act(index.gm, lambda: self._redo(index, entries), index=index, part=True)

    def _redo(self, index: GraphIndex, entries: Sequence[Entry]) -> list[Entry]:
        lost: list[Entry] = []
        i = 0
        while i < len(entries):
            j = i
            while j < len(entries) and entries[j].signature == entries[i].signature:
                j += 1
            sites = {entry.site for entry in entries[i:j]}
            done = entries[i].pass_.run_again(index, sites)
            lost += [entry for entry in entries[i:j] if entry.site not in done]
            i = j
        return lost

    def shared_copy(self, gm: GraphModule) -> Ledger:
        """Return a ledger of the same entries, for the copy `gm` of the graph module."""
        new = Ledger.__new__(Ledger)
        new.__dict__.update(self.__dict__)
        new.entries = list(self.entries)
        if self._gm() is not None:  # else it was just loaded, and `of` has yet to adopt the nodes
            new._gm = weakref.ref(gm)
        return new

    def named_modules(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, nn.Module]]:
        """Yield nothing: the ledger hides from the modules of its graph module, whose unused ones may be deleted."""
        return iter(())

    def extra_repr(self) -> str:
        return f"{len(self.entries)} sites in force"

    def _check(self, i: int) -> None:
        """Raise if undoing an entry would lose changes to the tensors that it put in."""
        entry = self.entries[i]
        changed = self._altered_at(i)
        if changed is not None:
            raise RewriteError(
                f"{changed[0]}, made by {entry.name}, {changed[1]} since; the way back leads to the tensors of before, "
                "so this would be lost. Undo that first, or reverse before you do it; the weights of the original by "
                "these values: fxopt.export.to_original(gm)."
            )

    def _altered_at(self, i: int) -> tuple[str, str] | None:
        state = self.entries[i].state
        if state.noted is None and state.changed is not None:
            self._compare(i)
        return self.entries[i].state.changed

    def _compare(self, first: int) -> None:
        """Accept tensors that were written to, from entry `first` on, as unaltered if they hold the very same bytes.

        They do after the graph module has loaded its own ``state_dict``. The old bytes are computed again, by undoing
        and redoing the entries on a copy. If the retained tensors share memory with written ones, that would prove
        nothing.
        """
        gm = self._gm()
        if gm is None or gm._modules.get(LEDGER) is not self or self._is_trial:
            return
        trial = shared_copy(gm)
        anew, index = Ledger.of(trial), GraphIndex(trial)
        anew._is_trial = True
        later = anew.entries[first:]
        try:
            with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
                warnings.simplefilter("ignore", FxoptWarning)
                undo(index, [entry.patch for entry in later])
                del anew.entries[first:]
                anew.redo(index, later)
        except RewriteError:
            return
        if [entry.id for entry in anew.entries] != [entry.id for entry in self.entries]:
            return
        replaced = (change.old for entry in self.entries for change in entry.patch.members)
        kept = {storage.data_ptr() for old in replaced for storage in storages_of(tensors_held_by(old))}
        for i, entry in enumerate(self.entries[first:], first):
            if not entry.state.shares_memory(kept) and entry.state.is_same_as(anew.entries[i].state):
                self.entries[i] = entry.renewed()

    # ---- conversions of the whole graph module

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Ledger:
        """Let the retained modules and tensors follow ``gm.to``, ``gm.half`` and the like."""
        self._follow(fn)
        self._moved = True
        return self

    def train(self, mode: bool = True) -> Ledger:
        """Let the retained modules follow ``gm.train`` and ``gm.eval``."""
        self.training = mode
        self._follow(lambda tensor: tensor, mode)
        return self

    def _follow(self, convert: Callable[[torch.Tensor], torch.Tensor], training: bool | None = None) -> None:
        gm = self._settled()
        present = present_in(gm) if gm is not None else present_after(entry.patch for entry in self.entries)
        follower = Follower(present, convert, training)
        self.entries = [replace(entry, patch=follower.patch(entry.patch)) for entry in self.entries]

    def _settled(self) -> GraphModule | None:
        """Return the graph module, once the tensors of its last conversion are taken over."""
        gm = self._gm()
        if gm is not None and self._moved:
            self._settle(gm)
        return gm

    def _settle(self, gm: GraphModule) -> None:
        """Take over the tensors of the graph module, now that all of it was moved."""
        self._moved = False
        self._moved_to(with_tensors_of(gm, [entry.patch for entry in self.entries]))

    def _moved_to(self, patches: Sequence[Patch]) -> None:
        self.entries = [
            replace(entry, patch=patch, state=entry.state.followed(patch))
            for entry, patch in zip(self.entries, patches)
        ]

    # ---- copies and files

    def _entries_in_transit(self) -> list[Entry]:
        """Return the entries, with a note of a tensor that was altered instead of its version, which is lost."""
        if self._moved:  # of a graph module that is still unknown
            self._moved_to([entry.patch for entry in self.entries])
        noted = map(self._altered_at, range(len(self.entries)))
        return [replace(entry, state=PatchState(noted=one)) for entry, one in zip(self.entries, list(noted))]

    def __getstate__(self) -> dict[str, Any]:
        gm = self._settled()
        state = dict(self.__dict__)
        mine = gm is not None and gm._modules.get(LEDGER) is self
        state["_unpickled"] = saved_nodes(gm) if mine and gm is not None else self._unpickled
        entries = self._entries_in_transit()
        state["entries"] = [e if can_be_pickled(e.pass_) else replace(e, pass_=NotSaved(e.name)) for e in entries]
        state["_gm"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._gm = _nothing
        self.entries = [entry.renewed() for entry in self.entries]

    def __deepcopy__(self, memo: dict[int, Any]) -> Ledger:
        gm = self._settled()
        new = Ledger.__new__(Ledger)
        memo[id(self)] = new
        skipped = ("_gm", "entries")
        new.__dict__.update(copy.deepcopy({k: v for k, v in self.__dict__.items() if k not in skipped}, memo))
        memo |= {id(entry.pass_): entry.pass_ for entry in self.entries}  # a transformation is a value
        new.entries = [entry.renewed() for entry in copy.deepcopy(self._entries_in_transit(), memo)]
        new._output = next(iter(reversed(gm.graph.nodes))).name if gm is not None else self._output
        copied = memo.get(id(gm))  # torch notes the new graph module before it copies its content
        new._gm = weakref.ref(copied) if isinstance(copied, GraphModule) else _nothing
        return new


def act(
    gm: GraphModule,
    do: Callable[[], T],
    *,
    index: GraphIndex | None = None,
    keep: tuple[Any, ...] = (),
    saves: bool = True,
    part: bool = False,
) -> T:
    """Run `do`, which changes `gm` and its ledger; if it raises, `gm` is as it was before.

    One thread at a time acts on a graph module, and others wait. Within another act of the same thread, this is a part
    of that one, and goes back alone if it fails.

    Args:
        index: an index of `gm` that `do` keeps true; renewed if `gm` goes back.
        keep: further objects whose attributes go back too, in the outermost act.
        saves: whether there is a state to go back to: False if `do` only reads.
        part: whether another act that this one is within fails too whenever this one does, and goes back for it.
    """
    return transact(gm, do, _prepare, index=index, keep=keep, saves=saves, part=part)


def plain_copy(gm: GraphModule) -> GraphModule:
    """Return a copy without the record of passes in force."""
    copied = shared_copy(gm)
    Ledger.of(copied).detach(copied)
    return copied


def _prepare(gm: GraphModule) -> Callable[[], None] | None:
    ledger, pending = Ledger._registered(gm)
    return (lambda: ledger._catch_up(gm)) if pending else None


def _rename_output(gm: GraphModule, name: str) -> None:
    """Give the output node its name back: copying a graph module calls it "output"."""
    output, names = next(iter(reversed(gm.graph.nodes))), gm.graph._graph_namespace._used_names
    if output.name != name:
        names.discard(output.name)
        output.name = name
        names.add(name)


def _nothing() -> GraphModule | None:
    """Return None as the graph module of a ledger that was just copied or loaded, until it is known."""
    return None
