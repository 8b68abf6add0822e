"""The patch of a site, and runs of changes that are all or nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from torch import nn

from fxopt.errors import RewriteError
from fxopt.graph.index import GraphIndex
from fxopt.graph.marks import MARKS
from fxopt.recording.changes import Change
from fxopt.recording.module_changes import ArrangeMembers, SetMember, arranged
from fxopt.recording.node_changes import EraseNode, InsertNode, SetMeta
from fxopt.recording.node_record import NodeRecord

Table = tuple[str, str]
"""The path of a module and the name of one of its tables."""


@dataclass(frozen=True, eq=False)  # equality would compare modules
class Patch:
    """The changes of one site. Their inverses in reverse order undo it."""

    changes: tuple[Change, ...]

    def __repr__(self) -> str:
        kinds = Counter(type(one).__name__ for one in self.changes)
        return f"Patch({', '.join(f'{count} {name}' for name, count in kinds.items())})"

    @property
    def inserted(self) -> tuple[NodeRecord, ...]:
        """The records of the nodes that the patch made."""
        return tuple(change.node for change in self.changes if isinstance(change, InsertNode))

    @property
    def created(self) -> tuple[str, ...]:
        """The nodes that the patch made."""
        return tuple(node.name for node in self.inserted)

    @property
    def removed(self) -> tuple[str, ...]:
        """The nodes that the patch took out."""
        return tuple(change.node.name for change in self.changes if isinstance(change, EraseNode))

    @property
    def changed(self) -> tuple[str, ...]:
        """The nodes that stayed, but call something else or another module now."""
        marked = (change.node for change in self.changes if isinstance(change, SetMeta) and change.key == MARKS)
        return tuple(dict.fromkeys(name for name in marked if name not in self.created))

    @property
    def members(self) -> tuple[SetMember, ...]:
        """The changes of modules, parameters and buffers."""
        return tuple(change for change in self.changes if isinstance(change, SetMember))

    @property
    def kept(self) -> tuple[nn.Module, ...]:
        """The modules that are kept for the reversal."""
        return tuple(change.old for change in self.members if isinstance(change.old, nn.Module))


def run(index: GraphIndex, changes: Iterable[Change]) -> None:
    """Apply `changes` one after the other; if one fails, take all of them back.

    Raises:
        RewriteError: the graph is not as the changes knew it. It is left as it was.
    """
    before: dict[Table, tuple[str, ...]] = {}
    after: dict[Table, tuple[str, ...]] = {}
    done: list[Change] = []
    try:
        for change in changes:
            if isinstance(change, SetMember | ArrangeMembers):
                _note_order(index, change, before, after)
            change.apply(index)
            done.append(change)
    except RewriteError:
        for change in reversed(done):
            change.inverse().apply(index)
        _reorder(index, before)
        raise
    _reorder(index, after)


def undo(index: GraphIndex, patches: list[Patch]) -> None:
    """Undo `patches`, the last one first; if one of them cannot be undone, undo none."""
    run(index, (change.inverse() for patch in reversed(patches) for change in reversed(patch.changes)))


def _note_order(
    index: GraphIndex,
    change: SetMember | ArrangeMembers,
    before: dict[Table, tuple[str, ...]],
    after: dict[Table, tuple[str, ...]],
) -> None:
    """Note the order of the table that `change` is about to touch, and the order that it is to have at the end."""
    table = change.parent, change.table
    if table not in before:
        parent = index.module_at(change.parent)
        before[table] = tuple(getattr(parent, change.table)) if parent is not None else ()
    if isinstance(change, SetMember) and change.order:
        after[table] = change.order
    elif table in after:  # a change by hand starts from the order that the changes before it come to
        _reorder(index, {table: after.pop(table)})


def _reorder(index: GraphIndex, orders: dict[Table, tuple[str, ...]]) -> None:
    for (path, table), order in orders.items():
        parent = index.module_at(path)
        if parent is not None:
            arranged(getattr(parent, table), order)
