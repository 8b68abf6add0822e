"""Symbolic sizes of the inputs of one recording, and the questions that were asked about them."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from fxopt.graph.nodes import SourceLine
from fxopt.tracing.checks import InputSizeError
from fxopt.tracing.inputs import Inputs, InputTensor
from fxopt.tracing.lines import calling_line, is_models

Dynamic = str | Mapping[str, Collection[int]]
"""The sizes to free: "auto", "all", "none", or dimensions by the name of the input."""

_COMPANIONS = ("attention_mask", "token_type_ids", "position_ids")
_ASKERS = ("symbolic_shapes.py", "sym_node.py", "recording.py", "torch/__init__.py")


@dataclass(frozen=True, eq=False)
class Question:
    """A condition on sizes that torch or the model asked about, and that holds for the example."""

    condition: Any
    line: SourceLine | None
    reason: str = ""


class _Guards(list[Any]):
    """The guards of a ShapeEnv, together with the line that asked each."""

    def __init__(self) -> None:
        super().__init__()
        self.questions: list[Question] = []
        self.reason = "an operation of torch asked"

    def append(self, guard: Any) -> None:
        super().append(guard)
        if not _is_about_speed(guard.expr):
            line = calling_line()
            self.questions.append(Question(guard.expr, line, "" if line else self.reason))


def _is_about_speed(condition: Any) -> bool:
    """Return whether torch asked itself, to choose among equal ways of computing.

    It asks whether sizes differ or are 1 (which a batch of 1 would fail), and for the algorithm of a
    convolution, ``batch < 16``.
    """
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.endswith(_ASKERS):
        frame = frame.f_back
    asker = frame.f_code
    if asker.co_name == "conv" and asker.co_filename.endswith("fake_impls.py"):
        return True
    return isinstance(condition, sympy.Ne) and not is_models(asker.co_filename)


@dataclass(frozen=True, eq=False)
class Origin:
    """The source of a symbol in the graph: a size or stride of a node's tensor, or the node's own value."""

    kind: str  # "size", "stride" or "value"
    node: Node
    dimension: int = 0


@dataclass(frozen=True, eq=False)
class InputSize:
    """One size of an input."""

    input: InputTensor
    dimension: int

    @property
    def where(self) -> str:
        return f"size {self.dimension} of {self.input.path}"

    @property
    def name(self) -> str:
        return f"size_of_{self.input.name}_{self.dimension}"

    @property
    def in_example(self) -> int:
        return self.input.tensor.shape[self.dimension]


class Sizes:
    """The ShapeEnv of one recording, with a symbol for each size that is to be free."""

    def __init__(self, inputs: Inputs, dynamic: Dynamic) -> None:
        self.inputs, self.dynamic = inputs, dynamic
        self._guards = _Guards()
        self.env = ShapeEnv(duck_shape=False, allow_scalar_outputs=True, allow_dynamic_output_shape_ops=True)
        self.env.guards = self._guards
        self.of_inputs: dict[Any, InputSize] = {}
        self.origins: dict[Any, Origin] = {}
        self.never_free: list[InputSize] = []
        self._numbers: dict[Any, torch.SymInt] = {}

    @property
    def questions(self) -> list[Question]:
        return self._guards.questions

    def fake(self, mode: FakeTensorMode, each: InputTensor, tensor: torch.Tensor) -> torch.Tensor:
        """Return a fake tensor for an input, with a symbol for each of its free sizes."""
        from torch._dynamo.source import ConstantSource  # a second of imports, which most runs can do without

        wanted = free_dimensions(each, self.dynamic)
        kinds = [DimDynamic.DYNAMIC if i in wanted else DimDynamic.STATIC for i in range(tensor.dim())]
        context: Any = StatelessSymbolicContext(
            dynamic_sizes=kinds, constraint_sizes=[None for _ in kinds]
        )  # fmt: skip
        source = ConstantSource(each.name)
        fake = mode.from_tensor(tensor.contiguous(), source=source, symbolic_context=context)
        sizes: tuple[Any, ...] = tuple(fake.shape)
        for dimension, size in enumerate(sizes):
            symbol = symbol_of(size)
            if symbol is None:
                self.never_free.append(InputSize(each, dimension))
            else:
                self.of_inputs[symbol], self._numbers[symbol] = InputSize(each, dimension), size
        return fake

    def bind(self, values: Any, node: Node, kind: str) -> None:
        """Remember `node` as the origin of the symbols that first appear in its sizes or strides."""
        for dimension, value in enumerate(values):
            symbol = symbol_of(value)
            if symbol is not None:
                self.origins.setdefault(symbol, Origin(kind, node, dimension))

    def is_unbacked(self, value: Any) -> bool:
        """Return whether a symbolic number, or one in a list, is data that no input size gives."""
        if isinstance(value, (list, tuple)):
            return any(map(self.is_unbacked, value))
        if not isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return False
        return any(str(symbol).startswith(("u", "zuf")) for symbol in value.node.expr.free_symbols)

    def share_companions(self) -> None:
        """Take a mask of the shape of its token ids to have that shape always, and keys that of values.

        Operations like ``mask[index]`` would leave its sizes free of theirs, and a model that leaves out
        a mask of ones would take any.
        """
        symbols = {(size.input.name, size.dimension): symbol for symbol, size in self.of_inputs.items()}
        for symbol, size in self.of_inputs.items():
            if is_cache(size.input):
                self._guards.reason = "the tensors of a cache have sizes in common"
                leader = next(other for other, its in self.of_inputs.items() if _is_alike(size, its))
            else:
                self._guards.reason = "a mask has the sizes of its token ids"
                leader = symbols.get((_leader(size.input.name), size.dimension))
            if leader is None or leader == symbol:
                continue
            if self.of_inputs[leader].in_example == size.in_example:
                bool(self._numbers[leader] == self._numbers[symbol])  # torch notes the answer as a guard

    def release(self) -> None:
        """Cut the way from the ShapeEnv, which lives on in caches of torch, to the recording."""
        self.env.guards = list(self._guards)


def symbol_of(value: Any) -> Any:
    """Return the symbol that a size is made of, if it is one.

    This is the symbol before any replacement: of two sizes that were found equal, each has its own origin.
    """
    symbol = value.node._expr if isinstance(value, torch.SymInt) else None
    return symbol if isinstance(symbol, sympy.Symbol) else None


def _leader(name: str) -> str:
    """Return the input whose sizes this one has: ``decoder_input_ids`` for ``decoder_attention_mask``."""
    for companion in _COMPANIONS:
        if name.endswith(companion):
            return name.removesuffix(companion) + "input_ids"
    return ""


def is_cache(each: InputTensor) -> bool:
    """Return whether a tensor is of a transformers model's cache: keys, values or states of earlier tokens."""
    return bool(each.path.steps) and each.path.argument in ("cache", "past_key_values", "cache_params")


def is_image(each: InputTensor) -> bool:
    """Return whether a tensor outside a cache is of (batch, channels, height, width), or called so."""
    return each.tensor.dim() == 4 and each.tensor.is_floating_point() and not is_cache(each) and "mask" not in each.name


def is_pixel_mask(each: InputTensor) -> bool:
    """Return whether a tensor tells, as (batch, height, width), which pixels are of the image."""
    return each.tensor.dim() == 3 and each.name.endswith("pixel_mask")


def with_heights_and_widths(inputs: Inputs) -> dict[str, Collection[int]] | None:
    """Return the dimensions that are free by default, and those of images besides; None if there is no image."""
    images = [each for each in inputs.tensors if is_image(each) and min(each.tensor.shape[2:]) > 1]
    if not images:
        return None
    wanted = {each.name: free_dimensions(each, "auto") for each in inputs.tensors}
    return {
        **wanted,
        **{each.name: (0, 2, 3) for each in images},
        **{each.name: (0, 1, 2) for each in inputs.tensors if is_pixel_mask(each)},
    }


def has_choices(each: InputTensor) -> bool:
    """Return whether these are token ids of (batch, choices, sequence), or their mask."""
    return each.tensor.dim() == 3 and each.name.endswith(("input_ids", *_COMPANIONS))


def _is_alike(one: InputSize, other: InputSize) -> bool:
    """Return whether these are sizes of one cache that are the same in the example."""
    same_place = one.input.path.argument == other.input.path.argument and one.dimension == other.dimension
    return same_place and one.in_example == other.in_example


def free_dimensions(each: InputTensor, dynamic: Dynamic) -> Collection[int]:
    """Return the dimensions of an input that get a symbol.

    By default the batch, and with two or three dimensions the second: the sequence of token ids, a
    waveform or ``(batch, sequence, channels)``. Of token ids ``(batch, choices, sequence)`` all; of the
    keys and values in a cache, ``(batch, heads, length, width)``, the length. Channels stay fixed, and so
    do heights and widths of images, which have a way of their own on the ladder.
    """
    if isinstance(dynamic, Mapping):
        return dynamic.get(each.name, dynamic.get(str(each.path), ()))
    if dynamic == "all":
        return range(each.tensor.dim())
    if dynamic == "none":
        return ()
    if each.tensor.dim() == 4 and is_cache(each):
        return (0, 2)
    if has_choices(each):
        return (0, 1, 2)
    return (0, 1) if 2 <= each.tensor.dim() <= 3 else (0,)


def check_dynamic(dynamic: Dynamic, inputs: Inputs) -> None:
    """Raise if `dynamic` names an unknown input, or an unknown dimension of one."""
    if not isinstance(dynamic, Mapping):
        if dynamic not in ("auto", "all", "none"):
            raise InputSizeError(f"dynamic={dynamic!r} is unknown: give 'auto', 'all', 'none' or {{input: dimensions}}")
        return
    known = {name: each for each in inputs.tensors for name in (each.name, str(each.path))}
    for name, dimensions in dynamic.items():
        if name not in known:
            raise InputSizeError(f"dynamic names {name!r}, but the inputs are {', '.join(known)}")
        shape = tuple(known[name].tensor.shape)
        wrong = [i for i in dimensions if not 0 <= i < len(shape)]
        if wrong:
            raise InputSizeError(f"dynamic asks for the dimensions {wrong} of {name}, of shape {shape}")
