"""Weights that passes computed, remembered for when the same site is switched on again."""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.fx import GraphModule

from fxopt.graph.tensor_state import TensorState, counts_writes
from fxopt.process.locks import free_in_forks

Results: TypeAlias = tuple[nn.Parameter, ...]


@dataclass(frozen=True, eq=False)
class _Known:
    sources: tuple[weakref.ref[torch.Tensor], ...]
    states: tuple[TensorState, ...]
    """Of the sources and of the results."""
    results: tuple[weakref.ref[nn.Parameter], ...]


class WeightCache:
    """Weights computed for one graph module, for as long as it lives and the sources are unchanged.

    It holds the results, which cost memory after a reverse (`bytes_retained` counts them, `commit` frees them), but not
    the sources: when one of them goes, so do the results computed from it.

    Several graph modules that share their weights may use one cache (`use`), each in a thread of its own: each weight
    is then computed once, and is the same tensor in all of them, so all of them must leave it unwritten. A cache
    remembers by the identity of the sources, so graph modules with weights of their own never meet in it.

    Args:
        most: so many bytes of results are held for their own sake, those that were used last. Beyond that, a result
            is remembered while some graph module has it.
    """

    def __init__(self, most: float = math.inf) -> None:
        self._most = most
        self._known: dict[object, _Known] = {}
        self._held: dict[object, Results] = {}
        self._bytes = 0
        self._gone: list[object] = []
        """The keys whose sources went meanwhile."""
        self._computing = free_in_forks(threading.RLock())

    @staticmethod
    def of(gm: GraphModule) -> WeightCache:
        """Return the cache of `gm`. Copies and graph modules loaded from a pickle start with an empty one."""
        cache = _CACHES.get(gm)
        if cache is None:
            cache = _CACHES[gm] = WeightCache()
        return cache

    @classmethod
    def as_large_as(cls, model: nn.Module) -> WeightCache:
        """Return an empty cache that holds as many bytes as the parameters of a model take."""
        return cls(most=sum(weight.nbytes for weight in model.parameters()))

    def use(self, gm: GraphModule) -> None:
        """Let this be the cache of `gm`, as it may be that of others."""
        _CACHES[gm] = self
        _SHARED.add(gm)

    @staticmethod
    def kept_by(gm: GraphModule) -> list[torch.Tensor]:
        """Return the tensors that the cache of `gm` holds for it alone."""
        return [] if gm in _SHARED else [tensor for held in WeightCache.of(gm)._held.values() for tensor in held]

    @staticmethod
    def forget(gm: GraphModule) -> None:
        """Give `gm` an empty cache of its own."""
        _CACHES.pop(gm, None)
        _SHARED.discard(gm)

    def computed(self, function: Callable[..., tuple[torch.Tensor, ...]], sources: tuple[Any, ...]) -> Results:
        """See `Rewriter.computed`."""
        tensors = tuple(source for source in sources if isinstance(source, torch.Tensor))
        plain = tuple(id(source) if isinstance(source, torch.Tensor) else source for source in sources)
        key = (f"{function.__module__}.{function.__qualname__}", *plain)
        with self._computing:
            self._drop_gone()
            results = self._remembered(key, tensors)
            if results is None:
                results = tuple(_parameter(tensor) for tensor in function(*sources))
                states = _states((*tensors, *results))
                if states is None:
                    return results
                self._drop(key)
                known_by = weakref.ref(self)
                self._known[key] = _Known(
                    tuple(weakref.ref(tensor, lambda _: _forget(known_by, key)) for tensor in tensors),
                    states,
                    tuple(map(weakref.ref, results)),
                )
            self._hold(key, results)
            return results

    def _remembered(self, key: object, tensors: tuple[torch.Tensor, ...]) -> Results | None:
        known = self._known.get(key)
        if known is None or not all(ref() is tensor for ref, tensor in zip(known.sources, tensors)):
            return None
        results = tuple(result for ref in known.results if (result := ref()) is not None)
        complete = len(results) == len(known.results)
        return results if complete and known.states == _states((*tensors, *results)) else None

    def _hold(self, key: object, results: Results) -> None:
        """Hold `results` as the last used ones, and drop those beyond the limit."""
        if self._held.pop(key, None) is None:
            self._bytes += _size(results)
        self._held[key] = results
        while self._bytes > self._most:
            least = self._held.pop(next(iter(self._held)))
            self._bytes -= _size(least)

    def _drop(self, key: object) -> None:
        self._known.pop(key, None)
        held = self._held.pop(key, None)
        if held is not None:
            self._bytes -= _size(held)

    def _drop_gone(self) -> None:
        while self._gone:
            self._drop(self._gone.pop())

    def _source_went(self, key: object) -> None:
        """Drop the results computed from a source, in any thread, which must not wait for one that computes."""
        self._gone.append(key)
        if self._computing.acquire(blocking=False):
            try:
                self._drop_gone()
            finally:
                self._computing.release()


_CACHES: weakref.WeakKeyDictionary[GraphModule, WeightCache] = weakref.WeakKeyDictionary()
_SHARED: weakref.WeakSet[GraphModule] = weakref.WeakSet()
"""The graph modules whose cache is shared."""


def _forget(cache: weakref.ref[WeightCache], key: object) -> None:
    found = cache()
    if found is not None:
        found._source_went(key)


def _parameter(tensor: torch.Tensor) -> nn.Parameter:
    return tensor if isinstance(tensor, nn.Parameter) else nn.Parameter(tensor, requires_grad=tensor.requires_grad)


def _size(tensors: Results) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _states(tensors: tuple[torch.Tensor, ...]) -> tuple[TensorState, ...] | None:
    """Return None where torch does not count the writes to a tensor."""
    return tuple(map(TensorState.of, tensors)) if all(map(counts_writes, tensors)) else None
