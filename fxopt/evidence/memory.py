"""The memory and the work that one run of a model takes, found by running it without any data.

Liveness: a tensor lives from the operation that makes it to the moment at which the last reference to its storage is
gone, as in a real run, since the same code runs here on torch's fake tensors. The count covers the memory of a run
beside the weights and the inputs. Of the buffers inside an operation, it covers the largest: a convolution's copy of
its input or output.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_iter, tree_map_only

from fxopt.evidence.running import EvidenceError, in_order, left_as_it_was
from fxopt.evidence.work import WorkCounter, WorkRun
from fxopt.tracing.hygiene import forget_fake_tensors, preserved


@dataclass(frozen=True)
class Demand:
    """The demand of one run."""

    peak_bytes: int
    """The most bytes that live at once, beside weights and inputs."""
    flops: int
    live: Mapping[str, int]
    """By node of a graph module, the most bytes that live while it runs; empty for another module."""
    not_counted: tuple[str, ...] = ()
    """The nodes whose work and result depend on data, which a run without data lacks."""

    @property
    def at(self) -> str:
        """The node at the peak; empty if nodes are unknown."""
        return max(self.live, key=self.live.__getitem__, default="")


def demand_of(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Demand:
    """Return the demand of one run of `model` on inputs of the shapes that `args` and `kwargs` have.

    Raises:
        EvidenceError: the model, which is no graph module, asks for the value of a number.
    """
    if isinstance(model, GraphModule):
        with left_as_it_was(model), _fake(args, kwargs) as (counter, fake_args, fake_kwargs):
            run = _LiveRun(model, counter)
            run.run(*in_order(model, fake_args, fake_kwargs), enable_io_processing=False)
        return Demand(max(run.live.values(), default=0), sum(run.flops.values()), run.live, tuple(run.failed))
    try:
        with preserved(model), _fake(args, kwargs) as (counter, fake_args, fake_kwargs):
            model(*fake_args, **fake_kwargs)
    except Exception as error:  # without data, any model may fail in its own way
        first_line = (str(error).splitlines() or [""])[0]
        raise EvidenceError(f"the demand depends on the data: {type(error).__name__}: {first_line}") from error
    finally:
        forget_fake_tensors()  # a model may keep what it made in a cache of its own
    return Demand(counter.highest, counter.flops, {})


@contextmanager
def _fake(args: Any, kwargs: Any) -> Iterator[tuple[_LiveCounter, Any, Any]]:
    """Yield a counter that is at work, and the inputs without data."""
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad():
        fake_args, fake_kwargs = tree_map_only(Tensor, lambda tensor: mode.from_tensor(tensor), (args, kwargs or {}))
        with _LiveCounter() as counter:
            yield counter, fake_args, fake_kwargs


class _LiveCounter(WorkCounter):
    """Counts the bytes of the storages that live, beside the work."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.highest = 0
        self._sizes: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_dispatch__(func, types, args, kwargs)
        # A view has the storage of its base, which may be that of a weight.
        if isinstance(func, OpOverload) and not any(returned.alias_info for returned in func._schema.returns):
            for leaf in tree_iter(result):
                if isinstance(leaf, Tensor):
                    self._count(leaf)
        if func is torch.ops.aten.convolution.default:  # oneDNN works on a copy in an order of its own
            self.highest = max(self.highest, self.now + max(_bytes_of(args[0]), _bytes_of(result)))
        return result

    def _count(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._sizes:  # an operation without a mark of its own here has returned a view
            return
        self._sizes[key] = storage.nbytes()
        self.now += storage.nbytes()
        self.highest = max(self.highest, self.now)
        weakref.finalize(storage, self._free, key).atexit = False

    def _free(self, key: int) -> None:
        self.now -= self._sizes.pop(key)


def _bytes_of(tensor: Tensor) -> int:
    return tensor.untyped_storage().nbytes()


class _LiveRun(WorkRun):
    """Runs each node, and keeps the most that lived meanwhile."""

    counter: _LiveCounter

    def __init__(self, gm: GraphModule, counter: _LiveCounter) -> None:
        super().__init__(gm, counter)
        self.live: dict[str, int] = {}

    def run_node(self, n: Node) -> Any:
        self.counter.highest = self.counter.now
        result = super().run_node(n)
        self.live[n.name] = self.counter.highest
        return result
