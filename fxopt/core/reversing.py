"""The way back of transformations: from the ledger, or by a ``reverse`` of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from torch import nn
from torch.fx import GraphModule

from fxopt.core.entry import Entry
from fxopt.core.gate import about_to_change
from fxopt.core.ledger import Ledger, act
from fxopt.errors import RewriteError, warn
from fxopt.graph.index import GraphIndex
from fxopt.graph.marks import MARKS, made_by
from fxopt.recording.changes import ABSENT
from fxopt.recording.difference import diff_snapshots
from fxopt.recording.module_changes import SetMember
from fxopt.recording.node_changes import InsertNode, SetMeta
from fxopt.recording.patch import Patch, run
from fxopt.recording.snapshot import Snapshot


def undo_entries(gm: GraphModule, *signatures: str, name: str, last: bool = False) -> int:
    """Undo the entries of `signatures` that are in force, or the last one alone; other entries stay.

    Later entries are undone first and then run again; if one then has no effect, an `FxoptWarning` says so.

    Returns:
        the number of entries undone.

    Raises:
        RewriteError: reversal is ruled out by a later change, or its record was lost. The graph is as it was.
    """

    def undone() -> int:
        mine = [entry for entry in Ledger.entries_of(gm) if entry.signature in signatures]
        if not mine:
            for signature in signatures:
                _check_that_nothing_is_lost(gm, signature, name)
            return 0
        ledger, index = Ledger.of(gm), GraphIndex(gm)
        _say_what_rested(name, ledger.undo_entry(index, mine[-1]) if last else ledger.remove(index, *signatures))
        return 1 if last else len(mine)

    return act(gm, undone)


def _check_that_nothing_is_lost(gm: GraphModule, signature: str, name: str) -> None:
    """Raise if the graph bears marks of a transformation that is missing in its ledger."""
    marked = [node.name for node in gm.graph.nodes if made_by(node, signature)]
    made = [path for path, module in gm.named_modules() if made_by(module, signature)]
    if (marked or made) and not any(_ran_inside(signature, entry) for entry in Ledger.entries_of(gm)):
        raise RewriteError(
            f"{[*marked, *made][0]} was made by {name}, but this graph module has lost the way back: it was traced "
            "again, built from another graph module or committed. Reverse the original, or reverse before that."
        )


def _ran_inside(signature: str, entry: Entry) -> bool:
    """Return whether the transformation of `entry` called one of this signature: then that one is to reverse it."""
    return any(
        (isinstance(one, SetMeta) and one.key == MARKS and one.new is not ABSENT and signature in one.new)
        or (isinstance(one, InsertNode) and signature in one.node.meta.get(MARKS, ()))
        or (isinstance(one, SetMember) and isinstance(one.new, nn.Module) and made_by(one.new, signature))
        for one in entry.patch.changes
    )


def _say_what_rested(name: str, lost: Iterable[Entry]) -> None:
    for entry in lost:
        warn(f"{entry.name} at {entry.site} rested on {name} and no longer applies: it was undone too")


def say_that_nothing_was_reversed(name: str) -> None:
    warn(f"{name} has no site in force in this graph module: nothing was reversed")


def reverse_by_own(
    gm: GraphModule,
    signature: str,
    name: str,
    back: Callable[[GraphModule], GraphModule],
    entry: Callable[[Ledger, Patch], Entry],
) -> GraphModule:
    """Let a transformation run its own ``reverse`` within an act, and record the remainder.

    If that leads back to the graph module of before, its calls leave the ledger. If something is left (other names of
    nodes, new modules with the old numbers, 3.0 for 3), that is recorded as a change of its own, so that earlier
    changes still reverse exactly.

    Args:
        back: runs the ``reverse``, and records it.
        entry: makes the entry of the ledger for the remainder.
    """
    ledger, index = Ledger.of(gm), GraphIndex(gm)
    places = [i for i, one in enumerate(ledger.entries) if one.signature == signature]
    first, end = (places[0], places[-1] + 1) if places else (len(ledger.entries),) * 2
    later = ledger.rewind(index, end)
    result = back(gm)
    index.renew()
    if result is not gm:
        ledger.rewind(index, end)
        ledger.put_back(index, later)
        ledger, index = Ledger.of(result), GraphIndex(result)
    if len(places) == end - first > 0:
        _cancel(entry, ledger, index, first)
    _say_what_rested(name, ledger.redo(index, later))
    ledger.close()
    return result


def _cancel(entry: Callable[[Ledger, Patch], Entry], ledger: Ledger, index: GraphIndex, first: int) -> None:
    """Take the entries from `first` on, there and back, out of the ledger, except for the rest that they leave."""
    now = Snapshot(index.gm, with_tensors=False)
    try:
        ledger.rewind(index, first)
    except RewriteError:
        return  # trained in between, for example: then both stay, and whoever wants to go further back is told why
    left = diff_snapshots(Snapshot(index.gm, with_tensors=False), now)
    if left.changes:
        about_to_change(index.gm)
        run(index, left.changes)
        ledger.append(entry(ledger, left))
