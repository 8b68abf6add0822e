"""Replay a graph module against the model: at the example, at other sizes, and at size 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule

from fxopt.tracing.checks import InputError, InputPath
from fxopt.tracing.facts import Change, changed_by
from fxopt.tracing.hygiene import REPLAY_SEED, preserved
from fxopt.tracing.inputs import Inputs
from fxopt.tracing.sizes import InputSize
from fxopt.tracing.structure import dismantle, same_structure

Free = dict[str, list[InputSize]]


@dataclass(frozen=True, eq=False)
class Setting:
    """The setting of a run: the mode of torch, and changes of some inputs that leave their values."""

    changes: Mapping[InputPath, Change] = field(default_factory=dict)
    mode: Callable[[], AbstractContextManager[Any]] = torch.no_grad

    def applied(self, inputs: Inputs) -> list[torch.Tensor]:
        """Return copies of the tensors of `inputs`, changed."""
        copies = [(self.changes.get(each.path), copy) for each, copy in zip(inputs.tensors, inputs.copies())]
        changed = [(changed_by(change, copy) if change is not None else copy, copy) for change, copy in copies]
        return [copy if new is None else new for new, copy in changed]


_USUAL = Setting()


@dataclass(frozen=True, eq=False)
class RunResult:
    """The result of a call, and the inputs and buffers after it; or the exception that it raised.

    `tensors` are copies of the tensors of the result, in the slots of its `structure`.
    """

    structure: Any = None
    tensors: tuple[torch.Tensor, ...] = ()
    written: tuple[torch.Tensor, ...] = ()
    error: Exception | None = None


def run_result(call: nn.Module, model: nn.Module, inputs: Inputs, setting: Setting = _USUAL) -> RunResult:
    """Run `call` on copies of `inputs`, with fixed random numbers; `model` is the same afterwards."""
    tensors = setting.applied(inputs)
    args, kwargs = inputs.call(tensors)
    with preserved(model, REPLAY_SEED) as before, setting.mode():
        try:
            result = run_model(call, args, kwargs)
        except Exception as error:  # noqa: BLE001  any exception of the model is its answer
            return RunResult(error=error)
        structure, parts = dismantle(result)
        # a part may be a buffer, which is about to be brought back
        copies = tuple(part.clone() for part in parts if isinstance(part, torch.Tensor))
        return RunResult(structure, copies, tuple(each.clone() for each in (*tensors, *before.buffers)))


def run_model(call: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if isinstance(call, GraphModule):
        # its own __call__ would print the code around an error
        return nn.Module.__call__(call, *args, **kwargs)
    return call(*args, **kwargs)


def mismatch(expected: RunResult, replayed: RunResult) -> str | None:
    """Return how a replay differs from the model beyond rounding; None if they agree."""
    if replayed.error is not None:
        return f"the graph raises {type(replayed.error).__name__}: {first_line(replayed.error)}"
    if not same_structure(expected.structure, replayed.structure):
        return "the output has another structure"
    for index, (x, y) in enumerate(zip(expected.tensors, replayed.tensors)):
        if x.shape != y.shape or x.dtype != y.dtype or x.layout != y.layout:
            return f"output {index} is {y.dtype} {tuple(y.shape)}, not {x.dtype} {tuple(x.shape)}"
        if not _close(x, y):
            return f"output {index} differs by up to {_largest_difference(x, y):.2g}"
    if not all(map(_close, expected.written, replayed.written)):
        return "it leaves other values in an input or a buffer"
    return None


def _close(x: torch.Tensor, y: torch.Tensor) -> bool:
    if x.device.type == "meta":
        return True
    if x.layout != torch.strided:
        x, y = x.to_dense(), y.to_dense()
    if not (x.is_floating_point() or x.is_complex()):
        return torch.equal(x, y)
    finite = x[x.isfinite()]
    scale = finite.abs().max().item() if finite.numel() else 0.0
    info = torch.finfo(x.dtype)
    # 64 steps of a half type would be half of the number itself
    rounding = (4 if info.bits <= 16 else 64) * info.eps
    return torch.allclose(x, y, rtol=rounding, atol=rounding * scale, equal_nan=True)


def _largest_difference(x: torch.Tensor, y: torch.Tensor) -> float:
    if x.dtype is torch.bool:
        x, y = x.int(), y.int()
    if x.layout != torch.strided:
        x, y = x.to_dense(), y.to_dense()
    return float((x - y).abs().max())


def resized(inputs: Inputs, free: Free, sizes: dict[str, int]) -> Inputs:
    """Return `inputs` with the free sizes of these names changed, by repeating or leaving out entries.

    Of a batch the last rows stay, since examples pad these; of a sequence the first tokens, since a row that is all
    padding has no answer.
    """
    tensors = {id(each): each.tensor for each in inputs.tensors}
    by_path = {each.path: each for each in inputs.tensors}
    for name, size in sizes.items():
        for place in free[name]:
            each = by_path[place.input.path]
            old = tensors[id(each)]
            length = old.shape[place.dimension]
            first = length - size if place.dimension == 0 and size < length else 0
            index = (first + torch.arange(size, device=old.device)) % length
            tensors[id(each)] = old.index_select(place.dimension, index)
    return inputs.with_tensors([tensors[id(each)] for each in inputs.tensors])


@dataclass(frozen=True)
class Comparison:
    """The difference of graph and model on some inputs; `refused` if one of them rejects these."""

    difference: str | None = None
    refused: str = ""


def compare_at(graph: nn.Module, model: nn.Module, inputs: Inputs, setting: Setting = _USUAL) -> Comparison:
    replayed = run_result(graph, model, inputs, setting)
    if isinstance(replayed.error, InputError):
        return Comparison(refused=first_line(replayed.error))
    expected = run_result(model, model, inputs, setting)
    if expected.error is not None:
        return Comparison(refused=f"the model raises {type(expected.error).__name__}: {first_line(expected.error)}")
    return Comparison(mismatch(expected, replayed))


def first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
