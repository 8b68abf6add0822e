"""The inputs of one call of the model: which argument each is, and the tensors inside them."""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from fxopt.tracing.checks import (
    CallInputs,
    Check,
    InputError,
    InputPath,
    KeysCheck,
    LengthCheck,
    ObjectCheck,
    Step,
    TensorCheck,
    ValueCheck,
)
from fxopt.tracing.structure import dismantle, filled, is_plain_object, kept


@dataclass(frozen=True, eq=False)
class Argument:
    """One argument of the model's forward; `keyword` is None if it is passed by position."""

    name: str
    value: Any
    keyword: str | None


@dataclass(frozen=True, eq=False)
class InputTensor:
    path: InputPath
    tensor: torch.Tensor

    @property
    def name(self) -> str:
        """The path as an identifier: ``past[0]['key']`` is ``past_0_key``."""
        return identifier(str(self.path))


@dataclass(frozen=True, eq=False)
class Inputs:
    """The arguments of a call, in the order of the model's signature."""

    arguments: tuple[Argument, ...]
    tensors: tuple[InputTensor, ...]
    skeletons: tuple[Any, ...]

    def call(self, tensors: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the same call with other things in the place of its tensors, in fresh containers."""
        values = filled(self.skeletons, tensors)
        pairs = list(zip(self.arguments, values))
        args = tuple(value for argument, value in pairs if argument.keyword is None)
        return args, {argument.keyword: value for argument, value in pairs if argument.keyword is not None}

    def copies(self) -> list[torch.Tensor]:
        """Return copies of the tensors, so that a model that writes into its inputs leaves these alone.

        A tensor that is given twice has one copy, since a model may ask whether ``query is key``.
        """
        copies: dict[int, torch.Tensor] = {}
        for each in self.tensors:
            if id(each.tensor) not in copies:
                copy = each.tensor.detach().clone().requires_grad_(each.tensor.requires_grad)
                copies[id(each.tensor)] = copy
        return [copies[id(each.tensor)] for each in self.tensors]

    def with_dicts_reversed(self) -> Inputs:
        """Return the same inputs, with the items of each dict in the opposite order."""
        skeletons = tuple(map(_reversed_dicts, self.skeletons))
        values = filled(skeletons, [each.tensor for each in self.tensors])
        arguments = tuple(Argument(old.name, value, old.keyword) for old, value in zip(self.arguments, values))
        return Inputs(arguments, self.tensors, skeletons)

    def with_tensors(self, tensors: Sequence[torch.Tensor]) -> Inputs:
        renewed = tuple(InputTensor(old.path, new) for old, new in zip(self.tensors, tensors))
        values = filled(self.skeletons, tensors)
        arguments = tuple(Argument(old.name, value, old.keyword) for old, value in zip(self.arguments, values))
        return Inputs(arguments, renewed, self.skeletons)

    def checks(self, ranks: bool = True) -> tuple[Check, ...]:
        """Return the checks for the kinds and values of the inputs, sizes aside, that these inputs pass."""
        given = CallInputs({argument.name: argument.value for argument in self.arguments})
        found = [
            check
            for name, value in given.items()
            for check in _structure_checks(InputPath(name), value)
            if _holds(check, given)
        ]
        if not ranks:
            return tuple(TensorCheck(each.path) if isinstance(each, TensorCheck) else each for each in found)
        return tuple(found)


def _reversed_dicts(value: Any) -> Any:
    if type(value) is dict:
        return {key: _reversed_dicts(part) for key, part in reversed(value.items())}
    return type(value)(map(_reversed_dicts, value)) if type(value) in (list, tuple) else value


def identifier(text: str) -> str:
    """Return a name for an input that any function may give an argument.

    >>> identifier("hidden states"), identifier("_x"), identifier("_1"), identifier("class")
    ('hidden_states', 'x', 'input_1', 'class_')
    """
    name = re.sub(r"\W+", "_", text).strip("_") or "input"
    if name[0].isdigit():
        return f"input_{name}"
    return f"{name}_" if keyword.iskeyword(name) else name


class _Names:
    """The names that the inputs have in the graph: `identifier` of their own ones, each given once."""

    def __init__(self, own: Iterable[str]) -> None:
        self._own, self._given = set(own), set[str]()

    def of(self, own: str) -> str:
        """Return a name for the input `own`: made plain, unless another is called so (``x_`` beside ``x``)."""
        plain = identifier(own)
        if plain != own and (plain in self._own | self._given or plain == "self"):
            plain = own if own.isidentifier() and not keyword.iskeyword(own) else plain
        return self._free(plain, own)

    def of_place(self, name: str, index: int) -> str:
        """Return a name for an input that has none of its own: a part of ``*rest``."""
        return self._free(identifier(f"{name}_{index}"), None)

    def of_keyword(self, own: str) -> str:
        """Return the name of an input that is given by keyword: its own, by which the graph is called too.

        Raises:
            InputError: no function can have an argument of this name.
        """
        if not own.isidentifier() or keyword.iskeyword(own):
            reason = "is no name that a function of Python can give an argument, so the graph cannot take it"
            raise InputError(f"the input {own!r} {reason}; give it another name, or put it into a dict")
        self._given.add(own)
        return own

    def _free(self, plain: str, own: str | None) -> str:
        name, index = plain, 2
        while name in self._given or (name != own and name in self._own):
            name, index = f"{plain}_{index}", index + 1
        self._given.add(name)
        return name


def bind(model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Inputs:
    """Find the argument of ``model.forward`` for each of the example's values.

    Raises `InputError` if they do not fit its signature.
    """
    signature = inspect.signature(model.forward)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise InputError(f"the example inputs do not fit {type(model).__name__}.forward{signature}: {error}") from None
    arguments = []
    names = _Names({**bound.arguments, **bound.kwargs})
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            arguments += [Argument(names.of_place(name, i), part, None) for i, part in enumerate(value)]
        elif kind is inspect.Parameter.VAR_KEYWORD:
            arguments += [Argument(names.of_keyword(key), part, key) for key, part in value.items()]
        elif kind is inspect.Parameter.KEYWORD_ONLY or name in kwargs:
            arguments.append(Argument(names.of_keyword(name), value, name))
        else:
            arguments.append(Argument(names.of(name), value, None))
    if any(argument.name == "self" for argument in arguments):
        subject = f"an input of {type(model).__name__} is called self"
        raise InputError(f"{subject}, and generated code calls the graph module that: rename it")
    return _inputs(tuple(arguments))


def _inputs(arguments: tuple[Argument, ...]) -> Inputs:
    skeletons, parts = dismantle(tuple(argument.value for argument in arguments))
    paths = [path for argument in arguments for path in _tensor_paths(InputPath(argument.name), argument.value)]
    return Inputs(arguments, tuple(map(InputTensor, paths, parts)), skeletons)


def _tensor_paths(path: InputPath, value: Any) -> Iterator[InputPath]:
    """Yield the paths of the tensors of `value`, in the order of `dismantle`."""
    if isinstance(value, torch.Tensor):
        yield path
    elif isinstance(value, (list, tuple, dict)):
        for key, part in _items(value):
            yield from _tensor_paths(InputPath(path.argument, (*path.steps, Step(key))), part)
    else:
        for index in range(len(dismantle(value)[1])):
            yield InputPath(path.argument, (*path.steps, Step(index, in_object=True)))


def _items(value: Any) -> list[tuple[Any, Any]]:
    return list(value.items()) if isinstance(value, dict) else list(enumerate(value))


def order_checks(inputs: Inputs) -> list[KeysCheck]:
    """Return the checks that dicts of tensors have the order of the example's; none where each has one item at most."""
    checks = [each for each in inputs.checks() if isinstance(each, KeysCheck) and len(each.keys) > 1]
    return [KeysCheck(each.path, each.keys, in_order=True) for each in checks]


def _holds(check: Check, given: CallInputs) -> bool:
    """Return whether the example passes its own check; an object with an equality of its own may be unlike itself."""
    try:
        check.check(given)
    except Exception:  # noqa: BLE001  code of the user may raise anything
        return False
    return True


def _has_objects(value: Any) -> bool:
    """Return whether a container has objects at any depth, which may be written to later; False if it has itself."""
    if not isinstance(value, (list, tuple, dict)):
        return is_plain_object(value)
    try:
        return any(_has_objects(part) for _, part in _items(value))
    except RecursionError:
        return False


def _structure_checks(path: InputPath, value: Any) -> Iterator[Check]:
    if isinstance(value, torch.Tensor):
        yield TensorCheck(path, value.dim())
    elif isinstance(value, (list, tuple, dict)) and (dismantle(value)[1] or _has_objects(value)):
        yield KeysCheck(path, tuple(value)) if isinstance(value, dict) else LengthCheck(path, len(value))
        for key, part in _items(value):
            yield from _structure_checks(InputPath(path.argument, (*path.steps, Step(key))), part)
    elif is_plain_object(value):
        skeleton, parts = dismantle(value)
        yield ObjectCheck(path, skeleton)
        for inner, tensor in zip(_tensor_paths(path, value), parts):
            yield TensorCheck(inner, tensor.dim())
    else:
        yield ValueCheck(path, kept(value))
