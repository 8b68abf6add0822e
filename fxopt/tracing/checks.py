"""Conditions on the inputs of a captured graph, as plain data: ``gm.meta["fxopt"].checks``."""

from __future__ import annotations

import functools
import hashlib
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any, Self

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Proxy

from fxopt.errors import FxoptError
from fxopt.graph.nodes import SourceLine
from fxopt.recording.node_record import can_be_pickled
from fxopt.tracing.facts import FACTS, MODES
from fxopt.tracing.lines import briefly
from fxopt.tracing.same_values import same_value
from fxopt.tracing.structure import dismantle, first_difference


class InputError(FxoptError, ValueError):
    """An input of a kind that the captured graph does not take."""


class InputSizeError(InputError):
    """An input of a size that the captured graph does not take."""


class LeftOutError(KeyError):
    """An input that is not among those of a call: its default stands for it."""


class CallInputs(dict[str, Any]):
    """The inputs of one call, by their names. An object among them is dismantled once, for all checks of its parts."""

    def __init__(self, inputs: Mapping[str, Any]) -> None:
        super().__init__(inputs)
        self._dismantled: dict[int, tuple[Any, Any, list[torch.Tensor]]] = {}

    def __missing__(self, name: str) -> Any:
        raise LeftOutError(name)

    def dismantled(self, value: Any) -> tuple[Any, list[torch.Tensor]]:
        """Return `value` with slots in place of its tensors, and these in order."""
        if id(value) not in self._dismantled:
            skeleton, parts = dismantle(value)
            tensors = [part for part in parts if isinstance(part, torch.Tensor)]
            self._dismantled[id(value)] = value, skeleton, tensors  # held, so that its id is not given to another
        return self._dismantled[id(value)][1:]


@dataclass(frozen=True)
class Step:
    """One step into a container: by index or key; or, in an object, to its tensor of this index."""

    key: Any
    in_object: bool = False

    def of(self, value: Any, inputs: CallInputs) -> Any:
        return inputs.dismantled(value)[1][self.key] if self.in_object else value[self.key]

    def __str__(self) -> str:
        return f".tensor{self.key}" if self.in_object else f"[{self.key!r}]"


@dataclass(frozen=True)
class InputPath:
    """The place of a value among the inputs: ``past[0]['key']``."""

    argument: str
    steps: tuple[Step, ...] = ()

    def of(self, inputs: CallInputs) -> Any:
        value = inputs[self.argument]
        for step in self.steps:
            if isinstance(value, Proxy):
                return value  # of a tracer, which has no parts to look at
            value = step.of(value, inputs)
        return value

    def __str__(self) -> str:
        return self.argument + "".join(map(str, self.steps))


_FUNCTIONS = {"math": math, "torch": torch}
"""The modules whose functions torch's printer of conditions writes: ``math.ceil``, ``torch._sym_sqrt``."""


@dataclass(frozen=True)
class SizeCheck:
    """`condition` is a Python expression over the names of `sizes`, and over functions of `math` and `torch`."""

    condition: str
    sizes: tuple[tuple[str, InputPath, int], ...]
    line: SourceLine | None = None
    reason: str = ""

    def check(self, inputs: CallInputs) -> None:
        found = {}
        for name, path, dimension in self.sizes:
            tensor = path.of(inputs)
            if not isinstance(tensor, torch.Tensor):
                return  # a TensorCheck says so
            found[name] = tensor.shape[dimension]
        if not eval(_compiled(self.condition), _FUNCTIONS, found):
            here = ", ".join(f"size {dimension} of {path} is {found[name]}" for name, path, dimension in self.sizes)
            why = f"the model asked at {briefly(self.line)}" if self.line else self.reason
            raise InputSizeError(f"captured for inputs with {self.condition}, here {here}; {why}")


@functools.lru_cache(maxsize=4096)
def _compiled(condition: str) -> CodeType:
    return compile(condition, "<size check>", "eval")


@dataclass(frozen=True)
class TensorCheck:
    """There is a tensor, with this number of dimensions where that matters."""

    path: InputPath
    dimensions: int | None = None

    def check(self, inputs: CallInputs) -> None:
        value = self.path.of(inputs)
        if isinstance(value, Proxy):
            return
        if not isinstance(value, torch.Tensor):
            raise InputError(
                f"captured with a tensor as {self.path}, here it is {_shown(value)}: capture again with this input"
            )
        if self.dimensions is not None and value.dim() != self.dimensions:
            raise InputSizeError(
                f"captured for inputs where {self.path} has {self.dimensions} dimensions, "
                f"here it has the shape {tuple(value.shape)}"
            )


@dataclass(frozen=True)
class LengthCheck:
    """A list or tuple has as many parts as the example's."""

    path: InputPath
    length: int

    def check(self, inputs: CallInputs) -> None:
        value = self.path.of(inputs)
        if isinstance(value, Proxy):
            return
        _check_kind(self.path, value, Sequence, "a list or tuple")
        if len(value) != self.length:
            raise InputSizeError(
                f"captured for inputs where {self.path} has {self.length} parts, here it has {len(value)}"
            )


@dataclass(frozen=True)
class KeysCheck:
    """A dict has the keys of the example's: in any order, or in its order."""

    path: InputPath
    keys: tuple[Any, ...]
    in_order: bool = False

    def check(self, inputs: CallInputs) -> None:
        value = self.path.of(inputs)
        if isinstance(value, Proxy):
            return
        _check_kind(self.path, value, Mapping, "a dict")
        if set(value) != set(self.keys) or (self.in_order and tuple(value) != self.keys):
            here = ", ".join(map(repr, value))
            raise InputError(f"captured for inputs where {self}, here it has {here}: capture again with this input")

    def __str__(self) -> str:
        order = " in this order" if self.in_order else ""
        return f"{self.path} has the keys {', '.join(map(repr, self.keys))}{order}"


def _check_kind(path: InputPath, value: Any, kind: type, name: str) -> None:
    if not isinstance(value, kind):
        here = f"here its type is {type(value).__name__}"
        raise InputError(f"captured with {name} as {path}, {here}: capture again with this input")


@dataclass(frozen=True)
class _OfType:
    """Stands in a pickle for a value that pickle cannot write: any value of this type is taken."""

    type: str
    text: str

    @classmethod
    def of(cls, value: Any) -> _OfType:
        return cls(_type_of(value), _shown(value))

    def __repr__(self) -> str:
        return self.text


def _type_of(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


class _Immutable:
    """A check whose objects keep their identity: a deep copy of its graph module has the same check."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {name: part if can_be_pickled(part) else _OfType.of(part) for name, part in self.__dict__.items()}


@dataclass(frozen=True)
class ValueCheck(_Immutable):
    """The check that an input without tensors has the example's value, which became part of the graph."""

    path: InputPath
    value: Any

    def check(self, inputs: CallInputs) -> None:
        value = self.path.of(inputs)
        if not isinstance(value, Proxy) and not _is_like(self.value, value):
            raise InputError(
                f"captured with {self.path} == {_shown(self.value)}, here it is {_shown(value)}: "
                "capture again with this value"
            )


@dataclass(frozen=True, eq=False)
class ObjectCheck(_Immutable):
    """An object (a cache of tensors, say) has the example's class, and its attributes apart from tensors.

    A model reads them as it runs: a cache with a sliding window counts its tokens in an int.
    """

    path: InputPath
    skeleton: Any

    def check(self, inputs: CallInputs) -> None:
        value = self.path.of(inputs)
        if isinstance(value, Proxy):
            return
        if isinstance(self.skeleton, _OfType):
            ValueCheck(self.path, self.skeleton).check(inputs)
            return
        different = first_difference(self.skeleton, inputs.dismantled(value)[0], str(self.path))
        if different is not None:
            place, captured, here = different
            raise InputError(f"captured with {place} == {captured}, here it is {here}: capture again with this input")


def _is_like(captured: Any, value: Any) -> bool:
    return _type_of(value) == captured.type if isinstance(captured, _OfType) else same_value(value, captured)


def _shown(value: Any) -> str:
    """Return a value in a message, in one line."""
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    return textwrap.shorten(repr(value), 120, placeholder=" ...")


@dataclass(frozen=True)
class MaskCheck:
    """A mask is all ones, or has a zero, as the example's: the model was seen to go another way at the other kind."""

    path: InputPath
    full: bool
    reason: str

    def check(self, inputs: CallInputs) -> None:
        mask = self.path.of(inputs)
        if not isinstance(mask, torch.Tensor) or isinstance(mask, FakeTensor) or mask.is_meta:
            return
        if bool((mask != 0).all()) != self.full:
            raise InputError(
                f"captured for inputs where {self.path} {fullness(self.full)}, here it {fullness(not self.full)}; "
                f"{self.reason}"
            )


@dataclass(frozen=True)
class SameMaskCheck:
    """A mask has its zeros where the example's has: the model decides by their places, for which the graph was made.

    `ones` holds the sizes of the mask and a digest of the places of its ones.
    """

    path: InputPath
    ones: str

    @classmethod
    def of(cls, path: InputPath, mask: torch.Tensor) -> SameMaskCheck:
        return cls(path, _ones_of(mask))

    def check(self, inputs: CallInputs) -> None:
        mask = self.path.of(inputs)
        if not isinstance(mask, torch.Tensor) or isinstance(mask, FakeTensor) or mask.is_meta:
            return
        if _ones_of(mask) != self.ones:
            raise InputError(
                f"captured with decisions by the values in {self.path}, which here has zeros elsewhere "
                "or another shape: capture again with this mask"
            )


def _ones_of(mask: torch.Tensor) -> str:
    ones = hashlib.sha256(bytes((mask != 0).flatten().tolist())).hexdigest()
    return f"{tuple(mask.shape)} {ones}"


def fullness(full: bool) -> str:
    return "is all ones" if full else "has a zero"


@dataclass(frozen=True)
class FactCheck:
    """A fact of a tensor is one of those at which graph and model were seen to agree; `line` is the one that asked."""

    path: InputPath
    fact: str
    accepted: tuple[str, ...]
    line: SourceLine | None

    def check(self, inputs: CallInputs) -> None:
        tensor = self.path.of(inputs)
        if not isinstance(tensor, torch.Tensor) or isinstance(tensor, FakeTensor):
            return
        here = FACTS[self.fact].of(tensor)
        if here not in self.accepted:
            remedy = FACTS[self.fact].remedy(str(self.path), self.accepted)
            raise InputError(
                f"captured for inputs where {self}, here it {here}; {_other_way(self.line)}: {remedy}"
                "capture again with this input"
            )

    def __str__(self) -> str:
        return f"{self.path} {' or '.join(self.accepted)}"


@dataclass(frozen=True)
class ModeCheck:
    """A mode of torch is as in the capture; `line` is the one that asked."""

    mode: str
    value: str
    line: SourceLine | None

    def check(self, inputs: CallInputs) -> None:
        mode = MODES[self.mode]
        here = mode.of()
        if here != self.value:
            raise InputError(
                f"captured where {self}, here it is {here}; {_other_way(self.line, mode.trial is not None)}: "
                "call the graph in that mode, or capture again in this one"
            )

    def __str__(self) -> str:
        return f"{self.mode} is {self.value}"


def _other_way(line: SourceLine | None, is_shown: bool = True) -> str:
    asked = f"asks at {briefly(line)}, and " if line else ""
    return f"the model {asked}{'goes' if is_shown else 'may go'} another way there"


Check = (
    SizeCheck
    | TensorCheck
    | LengthCheck
    | KeysCheck
    | ValueCheck
    | ObjectCheck
    | MaskCheck
    | SameMaskCheck
    | FactCheck
    | ModeCheck
)
