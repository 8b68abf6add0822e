"""The graph module of a workbench: the pristine one, rewritten by the passes that are on, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from torch.fx import GraphModule

from fxopt.core import GraphIndex, Ledger, Pass, RewriteError, shared_copy
from fxopt.core.gate import finish
from fxopt.core.ledger import act
from fxopt.core.weight_cache import WeightCache
from fxopt.workbench.running import AllBut, run_pass
from fxopt.workbench.states import Choice, PassState

Plan: TypeAlias = Sequence[tuple[Pass[Any], Choice]]
"""The passes with their choices, in the order in which they run."""


class CurrentGraph:
    """A copy of a pristine graph module that is brought to one plan after another, in place.

    Passes at the beginning that two plans have in common stay in force; the others are rewound and run.

    Args:
        weights: where the weights that passes compute are shared with other workbenches; None to share none.
    """

    def __init__(self, pristine: GraphModule, weights: WeightCache | None) -> None:
        self.pristine = pristine
        self.weights = WeightCache.as_large_as(pristine) if weights is None else weights
        self._shares_weights = weights is not None
        self.made: GraphModule | None = self._copied(pristine)
        """None where it has been released."""
        self._done: list[Choice] = []
        self._starts: list[int] = []
        self.states: list[PassState] = []
        """The passes with their sites and near misses, in the order in which they run."""

    def another(self, first: Sequence[PassState], choices: Sequence[Choice]) -> CurrentGraph:
        """Return another one for the same pristine graph module, where all passes are off; both share weights.

        Args:
            first: the states there.
            choices: the choices there.
        """
        self._shares_weights = True
        if self.made is not None:
            self.weights.use(self.made)
        new = type(self).__new__(type(self))
        new.pristine, new.weights, new._shares_weights = self.pristine, self.weights, True
        new.made = None
        new._done, new._starts, new.states = list(choices), [0] * len(choices), list(first)
        return new

    def make(self, plan: Plan) -> GraphModule:
        """Return the graph module at the present plan, made anew where it has been released."""
        return self.made if self.made is not None else self._make(self._copied(self.pristine), plan)

    def _make(self, gm: GraphModule, plan: Plan) -> GraphModule:
        def made() -> GraphModule:
            self.made = gm
            if len(self._done) < len(plan):
                self.build(plan)
            return gm

        return act(gm, made, keep=(self,))

    def release(self) -> None:
        """Release the graph module, and all memory that it takes; `make` makes another one."""
        gm = self.made
        if gm is not None:
            act(gm, self._released, keep=(self,), saves=False)

    def _released(self) -> None:
        self.made = None
        same = next((i for i, choice in enumerate(self._done) if choice.on), len(self._done))
        del self._done[same:], self._starts[same:]

    def build(self, plan: Plan) -> None:
        """Bring the graph module to `plan`: rewind to the first pass that differs, and run from there."""
        gm = self.make(plan)
        same = self._in_common(plan)
        index = GraphIndex(gm)
        if same < len(self._done):
            Ledger.of(gm).rewind(index, self._starts[same])
        done, starts, states = self._done[:same], self._starts[:same], self.states[:same]
        for pass_, choice in plan[same:]:
            starts.append(len(Ledger.entries_of(gm)))
            done.append(choice)
            states.append(run_pass(pass_, choice, index))
        finish(gm)
        self._done, self._starts, self.states = done, starts, states

    def trial(self, readable: GraphModule, plan: Plan) -> GraphModule:
        """Return a copy of the graph module, brought to `plan`, where a pass that fails has no site on.

        Args:
            readable: the graph module, or the pristine one where they are alike.
        """
        gm = act(readable, lambda: self._copied(readable, compiled=False), saves=False)
        return act(gm, lambda: self._tried(gm, plan), part=True)

    def _tried(self, gm: GraphModule, plan: Plan) -> GraphModule:
        index, same = GraphIndex(gm), self._in_common(plan)
        if same < len(self._starts):
            Ledger.of(gm).rewind(index, self._starts[same])
        for pass_, choice in plan[same:]:
            if choice.on:
                with suppress(RewriteError):
                    pass_.apply(index, AllBut(choice.without))
        return gm

    def _in_common(self, plan: Plan) -> int:
        """Return the number of passes, from the first, that are as they are now."""
        pairs = enumerate(zip(self._done, plan))
        return next((i for i, (mine, (_, other)) in pairs if mine != other), min(len(self._done), len(plan)))

    def _copied(self, gm: GraphModule, *, compiled: bool = True) -> GraphModule:
        copied = shared_copy(gm, compiled=compiled)
        if self._shares_weights:
            self.weights.use(copied)
        return copied
