"""The primitive changes of a graph module, each with its exact inverse.

Changes refer to nodes by name and to modules by reference. So they outlive node objects, and a replaced module comes
back as the very same module with the very same tensors. A change checks, before it acts, that the graph is as it knew
it: a graph that something else has changed in the meantime is refused rather than damaged.

There are five shapes: a node is inserted or erased, a call is set, an entry of a dictionary is set, a member of a
module is set, and things are brought into an order. The last four swap an old state and a new one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import Any, Self

from fxopt.graph.index import GraphIndex


class Absent(Enum):
    """Stands for a missing entry. An enum, because it is the same object after a copy or a pickle."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT


class Change(ABC):
    """A change of a graph module."""

    @abstractmethod
    def inverse(self) -> Change:
        """Return the change that leads back."""

    @abstractmethod
    def apply(self, index: GraphIndex) -> None:
        """Make the change in the graph module of `index`, which is kept true.

        Raises:
            RewriteError: the graph is not as the change knew it, and is left as it is.
        """


class Swap(Change):
    """A change from the state `old` to the state `new` of the same thing."""

    old: Any
    new: Any

    def inverse(self) -> Self:
        inverse = object.__new__(type(self))
        inverse.__dict__.update(self.__dict__, old=self.new, new=self.old)
        return inverse


class SetEntry(Swap):
    """Set an entry of a dictionary; `ABSENT` stands for a missing entry."""

    key: Any

    @abstractmethod
    def entries(self, index: GraphIndex) -> dict[Any, Any] | None:
        """Return the dictionary; None where it went with its node."""

    def apply(self, index: GraphIndex) -> None:
        entries = self.entries(index)
        if entries is None:
            return
        if self.new is ABSENT:
            entries.pop(self.key, None)
        else:
            entries[self.key] = self.new
        index.touched()
