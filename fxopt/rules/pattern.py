"""The pattern of a rule: parameters and constants, and the operations and module calls on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from torch.fx import Node

from fxopt.rules.spellings import Spelling, functions_of, targets_of


class Kind(Enum):
    VALUE = auto()
    TENSOR = auto()
    LITERAL = auto()
    MODULE = auto()
    SIBLINGS = auto()


@dataclass(frozen=True, eq=False)
class Parameter:
    """A parameter of a rule: an open part of the pattern."""

    name: str
    kind: Kind
    types: tuple[type, ...] = ()

    def __str__(self) -> str:
        return self.name

    @property
    def wanted(self) -> str:
        """The types that it may have, in words."""
        return " or ".join(kind.__name__ for kind in self.types)


@dataclass(frozen=True, eq=False)
class Constant:
    """A constant of the pattern: a number, text or the like."""

    value: Any

    def __str__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True, eq=False)
class Several:
    """A list or tuple with values of the pattern in it."""

    items: tuple[Term, ...]

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.items))}]"


@dataclass(frozen=True, eq=False)
class Operation:
    """An operation of the pattern, in any of its spellings."""

    node: Node
    spelling: Spelling
    arguments: Mapping[str, Term]

    def __str__(self) -> str:
        return self.spelling.name


@dataclass(frozen=True, eq=False)
class ModuleCall:
    """A call of a module that is a parameter of the rule."""

    node: Node
    module: Parameter
    argument: Term

    def __str__(self) -> str:
        return f"{self.module.name}, a {self.module.wanted}"


Term = Parameter | Constant | Several | Operation | ModuleCall


@dataclass(frozen=True, eq=False)
class Pattern:
    """The pattern of a rule, with the parameters that name its parts."""

    root: Operation | ModuleCall
    parameters: tuple[Parameter, ...]
    siblings: Parameter | None
    """The parameter, as in ``*linears: nn.Linear``, of which `root` is the pattern of each."""

    @property
    def targets(self) -> tuple[Any, ...]:
        """Return all targets of the root, and the functions that are a near miss of a module."""
        if isinstance(self.root, ModuleCall):
            return (*self.root.module.types, *functions_of(self.root.module.types))
        return targets_of(self.root.spelling.operation)

    @property
    def steps(self) -> tuple[Operation | ModuleCall, ...]:
        """Return the operations and module calls, from the root inwards."""
        found: dict[Operation | ModuleCall, None] = {}
        todo: list[Term] = [self.root]
        while todo:
            term = todo.pop(0)
            if isinstance(term, Operation | ModuleCall):
                found[term] = None
            todo += terms_in(term)
        return tuple(found)


def terms_in(term: Term) -> list[Term]:
    if isinstance(term, Operation):
        return list(term.arguments.values())
    if isinstance(term, ModuleCall):
        return [term.argument]
    return list(term.items) if isinstance(term, Several) else []


def is_value(term: Term) -> bool:
    return isinstance(term, Parameter) and term.kind in (Kind.VALUE, Kind.TENSOR)


def terms_in_lists(term: Term) -> tuple[Term, ...]:
    return term.items if isinstance(term, Several) else ()


def parameters_in(step: Operation | ModuleCall) -> Iterator[Parameter]:
    for term in terms_in(step):
        for one in (term, *terms_in_lists(term)):
            if isinstance(one, Parameter):
                yield one


def modules_in(step: Operation | ModuleCall) -> Iterator[Parameter]:
    if isinstance(step, ModuleCall):
        yield step.module
