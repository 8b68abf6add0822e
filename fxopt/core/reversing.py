"""The way back of transformations written by hand: from the ledger, or by a ``reverse`` of their own."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from torch.fx import GraphModule

from fxopt.core.difference import difference
from fxopt.core.edit import MARKS, InsertNode, SetMeta, SetModule, run
from fxopt.core.errors import FxoptWarning, RewriteError
from fxopt.core.index import GraphIndex
from fxopt.core.ledger import Entry, Ledger, made_by
from fxopt.core.recording import entry_of
from fxopt.core.snapshot import Snapshot

if TYPE_CHECKING:
    from fxopt.core.transformation import Transformation


def undo_last_call(transformation: Transformation, gm: GraphModule) -> bool:
    """Undo the last call of a transformation of this signature that is in force, whatever was done after it.

    What came later is undone first and then run again; where that changes nothing any more, an `FxoptWarning` says so.

    Returns:
        whether there was one.

    Raises:
        RewriteError: the way back is ruled out by something done since, or was lost. The graph is as it was.
    """
    ledger = Ledger.of(gm)
    signature = transformation.signature
    mine = [entry for entry in ledger.entries if entry.signature == signature]
    if not mine:
        ledger.close()
        check_that_nothing_is_lost(transformation, gm)
        return False
    lost = ledger.undo_entry(GraphIndex(gm), mine[-1])
    ledger.close()
    say_what_rested(transformation, lost)
    return True


def check_that_nothing_is_lost(transformation: Transformation, gm: GraphModule) -> None:
    """Raise if the graph bears marks of a transformation that its ledger knows nothing of."""
    signature = transformation.signature
    marked = transformation.get_transformed_nodes(gm)
    made = [path for path, module in gm.named_modules() if made_by(module, signature)]
    if (marked or made) and not any(_ran_inside(signature, entry) for entry in Ledger.entries_of(gm)):
        where = marked[0].name if marked else made[0]
        raise RewriteError(
            f"{where} was made by {_name(transformation)}, but this graph module has lost the way back: it was traced "
            "again, built from another graph module or committed. Reverse the original, or reverse before that."
        )


def _ran_inside(signature: str, entry: Entry) -> bool:
    """Whether the transformation of `entry` called one of this signature: then it is for that one to reverse it."""
    edits = entry.patch.edits
    return any(
        (isinstance(edit, SetMeta) and edit.key == MARKS and signature in (edit.new or ()))
        or (isinstance(edit, InsertNode) and signature in edit.node.meta.get(MARKS, ()))
        or (isinstance(edit, SetModule) and edit.new is not None and made_by(edit.new, signature))
        for edit in edits
    )


def say_what_rested(transformation: Transformation, lost: list[Entry]) -> None:
    for entry in lost:
        warnings.warn(
            f"{entry.name} at {entry.site} rested on {_name(transformation)} and no longer applies: it was undone too",
            FxoptWarning,
            stacklevel=4,
        )


def say_that_nothing_was_reversed(transformation: Transformation) -> None:
    warnings.warn(
        f"{_name(transformation)} has no site in force in this graph module: nothing was reversed",
        FxoptWarning,
        stacklevel=4,
    )


def reverse_by_own(
    transformation: Transformation, back: Transformation, there_and_back: Transformation, gm: GraphModule
) -> GraphModule:
    """Let a transformation run the ``reverse`` that it brings, and see what is left. Neither linted nor recompiled.

    Where that leads back to what the graph module was, its calls leave the ledger. Where something is left (other
    names of nodes, new modules with the old numbers, 3.0 for 3), that is recorded as a change of its own, so that
    what was done earlier still reverses exactly.

    Args:
        back, there_and_back: run the ``reverse``, and ``transform`` and then ``reverse``, when they are called.
    """
    ledger, index = Ledger.of(gm), GraphIndex(gm)
    places = [i for i, entry in enumerate(ledger.entries) if entry.signature == transformation.signature]
    first, end = (places[0], places[-1] + 1) if places else (len(ledger.entries),) * 2
    later = ledger.rewind(index, end)
    try:
        result = back(gm, lint_and_recompile=False)
    except BaseException:
        ledger.put_back(index, end, later)
        raise
    index.renew()
    if result is not gm:
        ledger.put_back(index, end, later)
        ledger.close()
        ledger, index = Ledger.of(result), GraphIndex(result)
    if len(places) == end - first > 0:
        _cancel(there_and_back, ledger, index, first)
    say_what_rested(transformation, ledger.redo(index, later))
    ledger.close()
    return result


def _cancel(there_and_back: Transformation, ledger: Ledger, index: GraphIndex, first: int) -> None:
    """Take the entries from `first` on, there and back, out of the ledger, but for what they leave behind."""
    now = Snapshot.of(index.gm, with_tensors=False)
    try:
        ledger.rewind(index, first)
    except RewriteError:
        return  # trained in between, for example: then both stay, and whoever wants to go further back is told why
    left = difference(Snapshot.of(index.gm, with_tensors=False), now)
    if left.edits:
        run(index, left.edits)
        ledger.append(entry_of(there_and_back, ledger, left))


def _name(transformation: Transformation) -> str:
    return str(getattr(transformation, "name", type(transformation).__name__))
