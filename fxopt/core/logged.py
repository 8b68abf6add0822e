"""A step of a recorded pipeline: the graph before and after, and the changes between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch.fx import GraphModule

from fxopt.core.function_pass import Changed, as_pass
from fxopt.graph.copying import shared_copy
from fxopt.graph.marks import ORIGIN, Origin
from fxopt.recording.node_changes import InsertNode

_SHOWN = 5


@dataclass(frozen=True, eq=False)
class LoggedStep:
    """One step of a pipeline: the graph before it and after it, as copies that share all weights."""

    name: str
    """Of the pass, or as it was given to `Log.step`."""
    seconds: float
    before: GraphModule
    after: GraphModule
    stage: str = ""
    """Of Inductor, where it is one of its passes: ``pre-grad``, ``joint`` or ``post-grad``."""
    inputs: tuple[Any, ...] = ()
    """An example of the inputs of both graphs, where the step brings one."""

    @property
    def title(self) -> str:
        return f"{self.stage}: {self.name}" if self.stage else self.name

    @cached_property
    def changes(self) -> tuple[Changed, ...]:
        """The changes that do not touch each other, each with the nodes of `before` that it is about."""
        return as_pass(lambda gm: shared_copy(self.after), self.name).scan(self.before).matches

    @cached_property
    def came_from(self) -> Mapping[str, tuple[str, ...]]:
        """By each new node, the nodes of `before` that it came from: those of its pass, or of the same change."""
        found = {}
        for change in self.changes:
            old = tuple(node.name for node in change.nodes)
            for one in change.changes:
                if isinstance(one, InsertNode):
                    origin = one.node.meta.get(ORIGIN)
                    found[one.node.name] = origin.nodes if isinstance(origin, Origin) else old
        return found

    @property
    def is_changed(self) -> bool:
        return bool(self.changes)

    def explained(self) -> tuple[str, ...]:
        """Return a sentence for each change."""
        explain = as_pass(lambda gm: gm, self.name).explain
        return tuple(f"{change.site}: {explain(change)}" for change in self.changes)

    def __repr__(self) -> str:
        count = len(self.changes)
        told = f"{count} change{'s' if count > 1 else ''}" if count else "no change"
        return f"{self.title}: {told}, {self.seconds * 1000:.1f} ms"

    def __str__(self) -> str:
        lines = [*self.explained()]
        more = [f"and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
        return "\n    ".join([repr(self), *lines[:_SHOWN], *more])
