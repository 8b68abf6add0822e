"""A model of a folder built without numbers: do its config and its weights belong together?

transformers builds and fills the model as it would from the weights, renames and ties included, but every tensor lies
on the meta device of torch, which has shapes only. So the answer comes before anything is allocated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from fxopt.errors import ModelError
from fxopt.models.making import FACTORIES, MemoryWatch
from fxopt.models.stored_weights import PRECISE, Stored
from fxopt.process.news import Pace

_LIKE = {name for name in FACTORIES if name.endswith("_like")}
_ABOUT_SIZE = ("overflow", "Overflow", "allocate memory", "not enough memory", "too large")


@dataclass(frozen=True)
class Fit:
    """A model and how stored weights fit it. Plain data, which goes through JSON."""

    kind: str
    parameters: int
    bytes: int
    building_bytes: int
    """Memory that building takes at most: the weights as stored, and what the model holds in another form."""
    missing: tuple[str, ...] = ()
    mismatched: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...] = ()
    """Name, shape as stored, shape as needed."""
    unexpected: tuple[str, ...] = ()
    quantized: tuple[str, ...] = ()
    """Weights of the model with fractions, stored in a type that serves storage only: integers or 8 bits."""

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Fit:
        """Return the fit from the JSON form of `dataclasses.asdict`."""
        return cls(**{name: _tuples(value) for name, value in plain.items()})

    @classmethod
    def of(cls, model: nn.Module, found: Mapping[str, Any], stored: Stored) -> Fit:
        """Return the fit that transformers' loading found, with names in order."""
        parameters = list(model.parameters())
        tensors = [*parameters, *model.buffers()]
        state, base = model.state_dict(), f"{getattr(model, 'base_model_prefix', '')}."
        coarse = [name for name, each in stored.items() if each.dtype not in PRECISE]
        return cls(
            type(model).__name__,
            sum(each.numel() for each in parameters),
            sum(each.numel() * each.itemsize for each in tensors),
            sum(each.bytes for each in stored.values()) + _bytes_beside(tensors, stored),
            tuple(sorted(found["missing_keys"])),
            tuple(sorted(_mismatch(one, state, stored, base) for one in found["mismatched_keys"])),
            tuple(sorted(found["unexpected_keys"])),
            tuple(sorted(name for name in coarse if _is_precise(state, name, base))),
        )


def _mismatch(
    found: str | tuple[str, Iterable[int], Iterable[int]], state: Mapping[str, Tensor], stored: Stored, base: str
) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """Return name, shape as stored and shape as needed of a mismatch, of which transformers 4 has the name alone."""
    if not isinstance(found, str):
        name, there, needed = found
        return name, tuple(there), tuple(needed)
    names = (found, f"{base}{found}", found.removeprefix(base))
    shape = next((stored[name].shape for name in names if name in stored), ())
    return found, shape, next((tuple(state[name].shape) for name in names if name in state), ())


def _bytes_beside(tensors: Iterable[Tensor], stored: Stored) -> int:
    """Return the bytes of the tensors that are no stored weight as it is: cast, joined, or computed from the config."""
    left = Counter((each.shape, each.dtype) for each in stored.values())
    beside = 0
    for tensor in tensors:
        form = (tuple(tensor.shape), tensor.dtype)
        if left[form]:
            left[form] -= 1
        else:
            beside += tensor.numel() * tensor.itemsize
    return beside


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _is_precise(state: Mapping[str, Tensor], name: str, base: str) -> bool:
    """Return whether the model computes with fractions in the place of the weight `name`, with prefix or without."""
    places = (name, base + name, name.removeprefix(base))
    return any(each in state and state[each].dtype in PRECISE for each in places)


def described(stored: Stored) -> dict[str, Tensor]:
    """Return meta tensors with the shapes and dtypes of `stored`, which always stay on the meta device."""
    return {name: _Described(torch.empty(each.shape, dtype=each.dtype, device="meta")) for name, each in stored.items()}


class _Described(Tensor):
    """A tensor that stays on the meta device if transformers would bring it to another, in any thread."""

    @staticmethod
    def __new__(cls, tensor: Tensor) -> _Described:
        return tensor.as_subclass(cls)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        with torch._C.DisableTorchFunctionSubclass():
            if func is Tensor.to:
                dtypes = [each for each in (kwargs.get("dtype"), *args[1:]) if isinstance(each, torch.dtype)]
                return args[0].to(dtypes[0]) if dtypes else args[0]
            answer = func(*args, **kwargs)
            return answer.as_subclass(cls) if isinstance(answer, Tensor) else answer


class BuildGuard(TorchFunctionMode):
    """Watches a thread build a model: it can be cancelled, makes at most `most` tensors, and none that memory lacks.

    With `dry`, tensors in the place of missing weights stay on the meta device as well.
    """

    def __init__(self, most: int, dry: bool = False) -> None:
        super().__init__()
        self.most, self.dry = most, dry
        self.tensors = self.elements = 0
        self.is_done = False
        """Was the architecture built, so that only its filling is left?"""
        self._pace = Pace("building it")
        self._memory = MemoryWatch()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        self._pace.tell()
        name = getattr(func, "__name__", "")
        if name not in FACTORIES:
            return func(*args, **kwargs)
        self.tensors += 1
        if self.tensors > self.most:
            raise ModelError(f"config.json describes a model of more than {self.most:,} tensors")
        if name in _LIKE and args[0].is_meta:
            self.is_done = True  # the first is for a weight that the file leaves out
        if self.dry and name in _LIKE and args[0].is_meta:
            kwargs = {**kwargs, "device": "meta"}
        self._memory.check(func, args, kwargs)
        made = func(*args, **kwargs)
        self.elements += made.numel()
        return made


def is_about_size(error: Exception) -> bool:
    """Return whether an error of torch is about a size beyond all memory, or of a value that is not a number."""
    text = str(error)
    return isinstance(error, (MemoryError, OverflowError)) or any(each in text for each in _ABOUT_SIZE)


def most_elements(stored: Stored) -> int:
    """Return the most numbers that the tensors of a model with these weights may have: each may be made some times."""
    return 8 * sum(each.elements for each in stored.values()) + 10**7


def most_tensors(stored: Stored) -> int:
    """Return the most tensors that the building of a model with these weights may make: many times the need of any."""
    return 20 * len(stored) + 5_000
