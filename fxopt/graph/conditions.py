"""Conditions that a site must meet before a pass may rewrite it, and the reason of an unmet one.

A pass writes its conditions as a generator. Each ``yield`` is one condition: False if it is met, an `Unmet` otherwise.
The return value of the generator is the answer if all are met. `decide` walks it, so the same lines decide and explain,
and the number of conditions met before the first unmet one ranks near misses::

    def match(self, node, index):
        return decide(node, self._conditions(node, index))

    def _conditions(self, node, index) -> Conditions[Scaled]:
        module = index.module_of(node)
        yield module.training and Unmet(f"{node.target} is in training mode", "model.eval()", "training", "evaluation")
        yield from module_conditions(node, nn.Linear, index)
        return Scaled(node, module)

The part behind ``and`` is put into words only when it is needed.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from torch.fx import Node

from fxopt.graph.site import Miss

T = TypeVar("T")


@dataclass(frozen=True)
class Unmet:
    """An unmet condition: the fact with its values, and the remedy."""

    reason: str
    remedy: str = ""
    actual: str = ""
    """The value found at the site."""
    needed: str = ""
    """The value needed."""


Condition: TypeAlias = Unmet | Literal[False]
Conditions: TypeAlias = Generator[Condition, None, T]


def decide(site: Node, conditions: Conditions[T]) -> T | Miss:
    """Return the answer of `conditions` if all are met; else the first unmet one, as a `Miss` at `site`."""
    met = 0
    while True:
        try:
            unmet = next(conditions)
        except StopIteration as end:
            answer: T = end.value
            return answer
        if unmet:
            return Miss(site, unmet.reason, unmet.remedy, actual=unmet.actual, needed=unmet.needed, met=met)
        met += 1
