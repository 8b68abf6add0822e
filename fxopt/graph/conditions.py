"""Conditions that a site must meet before a pass may rewrite it, and the reason of an unmet one.

A pass writes its conditions as a generator. Each ``yield`` is one condition: True if it is met, an `Unmet` otherwise.
The return value of the generator is the answer if all are met. `decide` walks it, so the same lines decide and explain,
and the number of conditions met before the first unmet one ranks near misses::

    def match(self, node, index):
        return decide(node, self._conditions(node, index))

    def _conditions(self, node, index) -> Conditions[Scaled]:
        module = index.module_of(node)
        yield not module.training or Unmet(f"{node.target} is in training mode", "model.eval()")
        x = yield from of_type(node.args[0], Node, lambda: Unmet(f"{node.name} reads a constant"))
        yield from module_conditions(node, nn.Linear, index)
        return Scaled(node, x, module)

The part behind ``or`` is put into words only when it is needed. `present`, `of_type` and `unless_unmet` return the
value that they ask for, so its type is known from there on. A rule says the same by `fxopt.require`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Literal, TypeAlias, TypeVar

from torch.fx import Node

from fxopt.graph.site import Miss, Unmet

__all__ = ["Condition", "Conditions", "Unmet", "decide", "of_type", "present", "unless_unmet"]

T = TypeVar("T")


Condition: TypeAlias = Unmet | Literal[True]
Conditions: TypeAlias = Generator[Condition, None, T]

_BEHIND = "behind an unmet condition, nothing is asked for"


def present(value: T | None, unmet: Callable[[], Unmet]) -> Conditions[T]:
    """Require that `value` is there, not None, and return it."""
    if value is None:
        yield unmet()
        raise AssertionError(_BEHIND)
    yield True
    return value


def of_type(value: object, kind: type[T], unmet: Callable[[], Unmet]) -> Conditions[T]:
    """Require that `value` is a `kind`, and return it."""
    return present(value if isinstance(value, kind) else None, unmet)


def unless_unmet(value: T | Unmet) -> Conditions[T]:
    """Return `value`, unless it is itself an unmet condition."""
    if isinstance(value, Unmet):
        yield value
        raise AssertionError(_BEHIND)
    return value


def decide(site: Node, conditions: Conditions[T]) -> T | Miss:
    """Return the answer of `conditions` if all are met; else the first unmet one, as a `Miss` at `site`."""
    met = 0
    while True:
        try:
            unmet = next(conditions)
        except StopIteration as end:
            answer: T = end.value
            return answer
        if isinstance(unmet, Unmet):  # False is met, too: passes from elsewhere may `yield <fault> and Unmet(...)`
            return Miss(site, unmet, met)
        met += 1
