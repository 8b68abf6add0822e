"""Work of each node in floating-point operations and bytes, counted by a run of the graph without data.

Tensors have shapes alone here (torch's fake tensors), so the count is free of real work and memory. Products count by
torch's own formulas (`torch.utils.flop_counter`: a multiplication and an addition are two), a pointwise operation
counts one for each number, and a move of numbers counts none. An operation without a formula, such as a normalization,
counts one for each number too, and is named. Bytes are the reads and writes of every operation; views move none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.fx import GraphModule, Interpreter, Node
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter, tree_map, tree_map_only
from torch.utils.flop_counter import flop_registry, sdpa_flop_count

from fxopt.evidence.costs import Costs, Unit
from fxopt.evidence.running import in_order, left_as_it_was
from fxopt.graph.nodes import TensorInfo
from fxopt.graph.operator_table import CASTS, COPIES, FILLED, LOOK_UPS, UNFILLED
from fxopt.packed import BFloat16Linear, Int8Linear
from fxopt.process.fake_tensors import fake_mode

_MOVES = COPIES | FILLED | LOOK_UPS | CASTS | {"copy_", "fill_", "zero_"}
_NOTHING = UNFILLED | {"_unsafe_view", "lift_fresh"}
_PACKED_IN: dict[type[nn.Module], torch.dtype] = {BFloat16Linear: torch.bfloat16, Int8Linear: torch.int8}
"""Layers of float32 that read a packed copy of their weight, in this dtype; without data, torch computes them."""
NAMED = 6
"""The number of operations without a formula that are named."""


def work_costs(gm: GraphModule, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> tuple[Costs, Costs]:
    """Count FLOPs and bytes of each node, for inputs of the shapes of `args` and `kwargs`; no number is read."""
    found = work_by_unit(gm, args, kwargs or {})
    return found["FLOP"], found["byte"]


def work_by_unit(gm: GraphModule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Mapping[Unit, Costs]:
    """Count every cost of each node that a run of the graph without data finds."""
    with left_as_it_was(gm), fake_mode() as mode, torch.no_grad():
        fake_args, fake_kwargs = tree_map_only(Tensor, lambda tensor: mode.from_tensor(tensor), (args, kwargs))
        with WorkCounter() as counter:
            worker = WorkRun(gm, counter)
            worker.run(*in_order(gm, fake_args, fake_kwargs), enable_io_processing=False)
    notes = []
    if counter.guessed:
        names = [name for name, _ in counter.guessed.most_common()]
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        notes.append(f"without a formula, counted as one for each number: {', '.join(names[:NAMED])}{more}")
    failed = f"not counted, as their work depends on the data: {', '.join(worker.failed)}" if worker.failed else ""
    costs = (
        _costs("FLOP", worker.flops, "; ".join(filter(None, (*notes, failed)))),
        _costs("byte", worker.bytes, failed),
    )
    return {one.unit: one for one in costs}


def _costs(unit: Unit, found: Mapping[str, int], note: str) -> Costs:
    return Costs(unit, {name: frozenset({(name, amount)}) for name, amount in found.items() if amount}, note)


class WorkCounter(TorchDispatchMode):
    """Count the work of the operations that run under it."""

    def __init__(self) -> None:
        super().__init__()
        self.flops = self.bytes = 0
        self.guessed: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.flops += self._flops_of(func, args, kwargs or {}, result)
        self.bytes += _bytes_of(func, (args, kwargs), result)
        return result

    def _flops_of(self, func: Any, args: Any, kwargs: dict[str, Any], result: Any) -> int:
        name = _name(func)
        formula = flop_registry.get(getattr(func, "overloadpacket", func))
        if formula is not None:
            return int(formula(*args, **kwargs, out_val=result))
        if name.startswith("_scaled_dot_product") and "backward" not in name:
            return int(sdpa_flop_count(*(tensor.shape for tensor in args[:3])))
        tensors = _tensors((args, kwargs, result))
        if _is_free(func) or name in _MOVES or not any(_is_real(tensor) for tensor in tensors):
            return 0
        if torch.Tag.pointwise not in func.tags:
            self.guessed[name] += 1
        return max(tensor.numel() for tensor in tensors)


class WorkRun(Interpreter):
    """Run each node, and keep its share of the count."""

    def __init__(self, gm: GraphModule, counter: WorkCounter) -> None:
        super().__init__(gm)
        self.counter = counter
        self.flops: dict[str, int] = {}
        self.bytes: dict[str, int] = {}
        self.failed: list[str] = []

    def run_node(self, n: Node) -> Any:
        self.counter.flops = self.counter.bytes = 0
        try:
            result = super().run_node(n)
        except Exception:  # noqa: BLE001 - without data, any call may fail in its own way; the note names the node
            self.failed.append(n.name)
            return _as_recorded(n.meta.get("tensor_info"))
        saved = sum(map(_bytes_saved, self.fetch_attr(str(n.target)).modules())) if n.op == "call_module" else 0
        self.flops[n.name], self.bytes[n.name] = self.counter.flops, self.counter.bytes - saved
        return result


class _Unknown:
    """Stand in for an unknown value: every use of it fails."""


def _as_recorded(known: Any) -> Any:
    """Return the captured result of a node, where all its sizes are numbers."""

    def empty(info: Any) -> Any:
        if isinstance(info, TensorInfo) and all(isinstance(size, int) for size in info.shape):
            return torch.empty([int(size) for size in info.shape], dtype=info.dtype, device=info.device)
        return _Unknown()

    return tree_map(empty, known)


def _bytes_of(func: Any, given: Any, result: Any) -> int:
    if _is_free(func):
        return 0
    written = sum(map(_size, _tensors(result)))
    if _name(func) in LOOK_UPS:
        return 2 * written  # of the table, only the entries that are looked up are read
    return sum(map(_size, _tensors(given))) + written


def _bytes_saved(module: nn.Module) -> int:
    """Return the bytes by which the packed copy of a weight is smaller than the weight, which was counted."""
    dtype = _PACKED_IN.get(type(module))
    weight = module.weight if dtype is not None else None
    if dtype is None or not isinstance(weight, Tensor) or weight.dtype is not torch.float32:
        return 0
    return weight.numel() * (weight.element_size() - dtype.itemsize)


def _is_free(func: Any) -> bool:
    """Return whether a call is a view or a query of metadata, which moves no numbers."""
    return not isinstance(func, OpOverload) or func.is_view or func.namespace == "prim" or _name(func) in _NOTHING


def _name(func: Any) -> str:
    return str(func.overloadpacket.__name__) if isinstance(func, OpOverload) else str(func)


def _tensors(value: Any) -> list[Tensor]:
    return [leaf for leaf in tree_iter(value) if isinstance(leaf, Tensor)]


def _is_real(tensor: Tensor) -> bool:
    return tensor.dtype.is_floating_point or tensor.dtype.is_complex


def _size(tensor: Tensor) -> int:
    """Return the bytes of a tensor; of an expanded one, those of its storage."""
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())
