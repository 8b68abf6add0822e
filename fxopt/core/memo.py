"""Weights that passes computed, remembered for when the same site is switched on again."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule


@dataclass(frozen=True, eq=False)
class _Known:
    sources: tuple[weakref.ref[torch.Tensor], ...]
    states: tuple[object, ...]
    """Of the sources and of the results: where their numbers lie and how often they were written to."""
    results: tuple[nn.Parameter, ...]


class Memo:
    """What was computed for one graph module, for as long as it lives and the sources are unchanged.

    It holds the results, which cost memory after a reverse (`bytes_kept` counts them, `commit` lets go of them), but
    not the sources: when one of them goes, so does what was computed from it.
    """

    def __init__(self) -> None:
        self._known: dict[object, _Known] = {}

    @staticmethod
    def of(gm: GraphModule) -> Memo:
        """The memo of `gm`. Copies and what is loaded from a pickle start with an empty one."""
        memo = _MEMOS.get(gm)
        if memo is None:
            memo = _MEMOS[gm] = Memo()
        return memo

    def computed(
        self, function: Callable[..., tuple[torch.Tensor, ...]], sources: tuple[Any, ...]
    ) -> tuple[nn.Parameter, ...]:
        """See `Rewriter.computed`."""
        tensors = tuple(source for source in sources if isinstance(source, torch.Tensor))
        plain = tuple(id(source) if isinstance(source, torch.Tensor) else source for source in sources)
        key = (f"{function.__module__}.{function.__qualname__}", *plain)
        known = self._known.get(key)
        if (
            known is not None
            and all(ref() is tensor for ref, tensor in zip(known.sources, tensors))
            and known.states == _states((*tensors, *known.results))
        ):
            return known.results
        results = tuple(_parameter(tensor) for tensor in function(*sources))
        states = _states((*tensors, *results))
        if states is not None:
            known_by = weakref.ref(self)
            self._known[key] = _Known(
                tuple(weakref.ref(tensor, lambda _: _forget(known_by, key)) for tensor in tensors), states, results
            )
        return results

    def tensors(self) -> list[torch.Tensor]:
        """All that it holds."""
        return [tensor for known in self._known.values() for tensor in known.results]

    def clear(self) -> None:
        self._known.clear()


_MEMOS: weakref.WeakKeyDictionary[GraphModule, Memo] = weakref.WeakKeyDictionary()


def _forget(memo: weakref.ref[Memo], key: object) -> None:
    found = memo()
    if found is not None:
        found._known.pop(key, None)


def _parameter(tensor: torch.Tensor) -> nn.Parameter:
    return tensor if isinstance(tensor, nn.Parameter) else nn.Parameter(tensor, requires_grad=tensor.requires_grad)


def _states(tensors: tuple[torch.Tensor, ...]) -> tuple[object, ...] | None:
    """None where torch does not tell whether a tensor was written to."""
    if any(t.is_inference() or t.layout != torch.strided for t in tensors):
        return None
    return tuple((t.data_ptr(), t._version, t.dtype, t.device, t.requires_grad, tuple(t.stride())) for t in tensors)
