"""The module of a region of a graph that ONNX Runtime or OpenVINO computes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.export import Dim, ExportedProgram
from torch.fx import GraphModule
from torch.utils._pytree import tree_flatten

from fxopt.engines.flat import Flat, tensors_among
from fxopt.engines.region import Call, EngineError, EngineRegion, FullError, SetUp
from fxopt.engines.runtimes import RUNTIMES, Runtime, Tensors, exported
from fxopt.graph.nodes import TensorInfo

DTYPES = frozenset({torch.float32, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool})
"""Those that both engines take; of other floating-point numbers, OpenVINO changes the precision."""
_NO_BOUND = 2**62
_MOST_SESSIONS = 3
"""So many copies of the weights may be held for inputs of different sizes that have the same axes of size 1."""
_BOUND = 1e-3
"""The error of a result, against its largest number, from which on it is no rounding."""


@dataclass(frozen=True)
class _Free:
    """A size that is free from `low` to `high`; those of one name are equal."""

    name: str
    low: int
    high: int


@dataclass(frozen=True, eq=False)
class _Session:
    """The body in the engine, for inputs of one structure and some sizes."""

    run: Callable[..., Tensors]
    structure: Hashable
    """The containers, numbers and texts among the inputs, and the types of the tensors."""
    sizes: tuple[tuple[int | _Free, ...], ...]
    """Of each tensor among the inputs."""

    def holds_for(self, tensors: Tensors) -> bool:
        """Check that the tensors have the sizes that it was made for."""
        free: dict[str, int] = {}
        pairs = (pair for known, one in zip(self.sizes, tensors, strict=True) for pair in zip(known, one.shape))
        return all(
            known == size
            if isinstance(known, int)
            else known.low <= size <= known.high and free.setdefault(known.name, size) == size
            for known, size in pairs
        )


class SessionRegion(EngineRegion):
    """Compute a graph module in ONNX Runtime or OpenVINO, with its weights frozen; node by node where somebody watches.

    The first call for each kind of input is compared with the body: results of another type, shape, or beyond rounding
    count as a failure of the engine. Results lie in memory as those of the body do.

    Args:
        body: the nodes of the region; its parameters are those of the model.
        package: "onnxruntime" or "openvino".
    """

    def __init__(self, body: GraphModule, package: str) -> None:
        super().__init__(body)
        self.package = package

    @property
    def engine(self) -> str:  # type: ignore[override]  # of the package
        return self._runtime.name

    @property
    def _runtime(self) -> Runtime:
        return RUNTIMES[self.package]

    def _may_run(self, inputs: tuple[Any, ...], weights: list[Tensor]) -> bool:
        tensors = (*tensors_among(inputs), *weights)
        return super()._may_run(inputs, weights) and not any(map(_strangeness, tensors))

    def _reason_against(self, inputs: tuple[Any, ...], weights: list[Tensor]) -> str:
        if not super()._may_run(inputs, weights):
            return super()._reason_against(inputs, weights)
        named = [*self._named(inputs), *self.body.named_parameters(), *self.body.named_buffers()]
        found = ((name, _strangeness(one)) for name, one in named if isinstance(one, Tensor))
        name, strange = next(pair for pair in found if pair[1])
        return f"{name} is {strange}; {self.engine} takes dense float32, integers and booleans on the CPU"

    def _call_for(self, set_up: SetUp, inputs: tuple[Any, ...]) -> tuple[Call, Any]:
        session = self._session_for(set_up, inputs)
        returned = self.body(*inputs)
        expected, is_one = tensors_among(returned), isinstance(returned, Tensor)
        strides = tuple(one.stride() for one in expected)

        def call(*inputs: Any) -> Any:
            if self.package == "openvino" and not all(one.isfinite().all() for one in tensors_among(inputs)):
                return self._node_by_node("an input is not finite, and OpenVINO gives numbers for NaN", inputs)
            found = tuple(map(_laid_out, session.run(*tensors_among(inputs)), strides))
            return found[0] if is_one else found

        found = call(*inputs)
        problem = _difference(expected, tensors_among(found))
        if problem:
            raise EngineError(problem)
        return call, found

    def _session_for(self, set_up: SetUp, inputs: tuple[Any, ...]) -> _Session:
        """Return the session for the sizes of these inputs: one that is there, or a new one.

        The first has the sizes of its inputs, which is fastest. A later one leaves the sizes free that have changed,
        where the export can.
        """
        tensors, structure = tensors_among(inputs), _structure_of(inputs)
        alike: list[_Session] = [one for one in set_up.made if one.structure == structure]
        known = next((one for one in alike if one.holds_for(tensors)), None)
        if known is not None:
            return known
        single = _single_axes(one.shape for one in tensors)
        if sum(_single_axes(one.sizes) == single for one in set_up.made) == _MOST_SESSIONS:
            raise FullError(
                f"{_MOST_SESSIONS} sessions of {self.engine} for other inputs are held, each with a copy of the "
                "weights; pad the inputs to fewer sizes"
            )
        flat = Flat(self.body, inputs, {})
        flat.training = False
        program = _with_free_sizes(flat, tensors, alike) or exported(flat, tensors)
        session = _Session(self._runtime.load(program, set_up.threads), structure, _sizes_of(program))
        set_up.made.append(session)
        return session


def _strangeness(one: Tensor) -> str:
    """Return the fact for which no engine takes a tensor; empty if there is none."""
    if one.dtype not in DTYPES:
        return str(one.dtype).removeprefix("torch.")
    if one.device.type != "cpu":
        return f"on {one.device}"
    if one.layout is not torch.strided:
        return str(one.layout).removeprefix("torch.")
    return "" if one.numel() else "empty"


def _structure_of(inputs: tuple[Any, ...]) -> Hashable:
    leaves, shape = tree_flatten(inputs)
    kinds = ((one.dtype, one.dim()) if isinstance(one, Tensor) else (type(one), one) for one in leaves)
    return str(shape), tuple(kinds)


def _single_axes(sizes: Iterable[Sequence[int | _Free]]) -> tuple[tuple[int, ...], ...]:
    """Return the axes of each tensor that have the size 1, which no session with free sizes takes."""
    return tuple(tuple(axis for axis, size in enumerate(one) if size == 1) for one in sizes)


def _with_free_sizes(flat: Flat, tensors: Tensors, earlier: Sequence[_Session]) -> ExportedProgram | None:
    """Return the program with those sizes free that were others in earlier sessions; None where there is none."""
    free: list[dict[int, Any]] = [
        {
            axis: Dim.AUTO
            for axis, size in enumerate(one.shape)
            if size > 1 and any(known.sizes[i][axis] != size for known in earlier)  # export fixes 1
        }
        for i, one in enumerate(tensors)
    ]
    if not any(free):
        return None
    try:
        return exported(flat, tensors, {"tensors": tuple(free)})
    except Exception:  # noqa: BLE001 - of the export; with the sizes of the example it may succeed, or says why not
        return None


def _sizes_of(program: ExportedProgram) -> tuple[tuple[int | _Free, ...], ...]:
    """Return the sizes that the inputs of a program may have."""
    values = {node.name: node.meta["val"] for node in program.graph.find_nodes(op="placeholder")}
    ranges = {str(symbol): one for symbol, one in program.range_constraints.items()}

    def size_of(size: int | torch.SymInt) -> int | _Free:
        name = str(size)
        if isinstance(size, int) or name not in ranges:
            return int(size)  # a size that follows from another one is fixed as well
        low, high = ranges[name].lower, ranges[name].upper
        return _Free(name, int(low), int(high) if high.is_Integer else _NO_BOUND)

    return tuple(tuple(map(size_of, values[name].shape)) for name in program.graph_signature.user_inputs)


def _laid_out(found: Tensor, stride: tuple[int, ...]) -> Tensor:
    """Return the same numbers with this stride."""
    if found.stride() == stride:
        return found
    return torch.empty_strided(found.shape, stride, dtype=found.dtype).copy_(found)


def _difference(expected: Tensors, found: Tensors) -> str:
    """Return the difference of results that is no rounding; empty if there is none."""
    if len(expected) != len(found):
        return f"it gives {len(found)} tensors, and the region {len(expected)}"
    for one, other in zip(expected, found):
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            return f"it gives a tensor {TensorInfo.of(other)}, and the region {TensorInfo.of(one)}"
        if not one.is_floating_point():
            if not torch.equal(one, other):
                return "it gives other integers than the region"
            continue
        finite = one[one.isfinite()].abs()
        scale = float(finite.max()) if finite.numel() else 0.0
        if not torch.isclose(other, one, rtol=0.0, atol=_BOUND * scale, equal_nan=True).all():
            error = float((other - one).abs().nan_to_num(torch.inf).max())
            return f"its result is off by {error:.2g}, with numbers up to {scale:.2g}"
    return ""
