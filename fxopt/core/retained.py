"""Memory retained for reversal, and `commit`, which frees it."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.fx import GraphModule

from fxopt.core.ledger import Ledger, act
from fxopt.core.weight_cache import WeightCache
from fxopt.errors import expect_graph
from fxopt.graph.tensor_state import storages_of, tensors_held_by
from fxopt.recording.changes import Change
from fxopt.recording.module_changes import SetAttribute, SetItem, SetMember


def bytes_retained(gm: GraphModule) -> int:
    """Return the bytes of tensors that `gm` holds for reversal alone.

    Those are the memory of the parameters and buffers that transformations replaced or removed, and of weights that
    passes remember having computed, each piece of memory once, except the memory of the parameters and buffers of `gm`.
    Other holders of the same tensors, such as the model that was traced, are unknown here: while there are any,
    `commit` frees that much less.

    >>> import fxopt
    >>> from torch import nn
    >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).eval()
    >>> gm = fxopt.FuseBatchNorm2dInConv2d()(fxopt.capture(model, (torch.rand(1, 3, 8, 8),)))
    >>> bytes_retained(gm) == 4 * (8 * 3 * 3 * 3 + 8 + 4 * 8) + 8  # weight, bias, four of batch norm, and its counter
    True
    >>> commit(gm) > 0, bytes_retained(gm)
    (True, 0)
    """
    expect_graph(gm, "fxopt.bytes_retained")
    needed = {memory.data_ptr() for memory in storages_of([*gm.parameters(), *gm.buffers()])}
    tensors = [
        *(t for entry in Ledger.entries_of(gm) for change in entry.patch.changes for t in _tensors_of(change)),
        *WeightCache.kept_by(gm),
    ]
    kept = {memory.data_ptr(): memory.nbytes() for memory in storages_of(tensors)}
    return sum(size for place, size in kept.items() if place not in needed)


def commit(gm: GraphModule) -> int:
    """Give up reversal: `gm` stays as it is, for good.

    The marks of transformations on nodes stay, so a pass still knows its work, and asking it to reverse is an error.

    Returns:
        the bytes that `bytes_retained` gave before.
    """

    def committed() -> int:
        freed = bytes_retained(gm)
        Ledger.detach(gm)
        WeightCache.forget(gm)
        return freed

    return act(gm, committed)


def _tensors_of(change: Change) -> Iterator[torch.Tensor]:
    if isinstance(change, SetMember | SetAttribute | SetItem):
        for value in (change.old, change.new):
            yield from tensors_held_by(value)
