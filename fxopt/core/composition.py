"""Transformations run one after the other, as one."""

from __future__ import annotations

from torch.fx import GraphModule

from fxopt.core.entry import Entry, name_of
from fxopt.core.gate import finish
from fxopt.core.ledger import Ledger, act
from fxopt.core.listening import Call
from fxopt.core.reversing import undo_entries
from fxopt.core.signature import digest
from fxopt.core.transformation import ReversibleTransformation, Transformation
from fxopt.errors import RewriteError
from fxopt.graph.copying import shared_copy


class Composition(Transformation):
    """Transformations run one after the other; made by `compose`.

    Args:
        limit: the number of rounds in which one has to change nothing; None for a single run of each.
    """

    def __init__(self, parts: tuple[Transformation, ...], inplace: bool, limit: int | None) -> None:
        self.parts = parts
        self.inplace = inplace
        self.limit = limit
        self.preserves_computation = all(part.preserves_computation for part in parts)

    @property
    def signature(self) -> str:
        until_stable = {} if self.limit is None else {"until_stable": True}
        return digest("fxopt.compose", {"parts": [part.signature for part in self.parts], **until_stable})

    def __repr__(self) -> str:
        options = [] if self.inplace else ["inplace=False"]
        options += [] if self.limit is None else ["until_stable=True"]
        return f"compose({', '.join([*map(repr, self.parts), *options])})"

    def _told(self, name: str, gm: GraphModule, call: Call, reverse: bool) -> GraphModule:
        return super()._told(name, gm, call, reverse) if reverse else call()  # forward, each part is told

    def transform(self, graph_module: GraphModule) -> GraphModule:
        def transformed() -> GraphModule:
            gm = graph_module if self.inplace else shared_copy(graph_module)
            done: list[Entry] = []
            for _ in range(1 if self.limit is None else self.limit):
                done = []
                for part in self.parts:
                    count = len(Ledger.entries_of(gm))
                    gm = part(gm, lint_and_recompile=False)
                    done += Ledger.entries_of(gm)[count:]
                if self.limit is None or not done:
                    return gm
            raise self._endless(done)

        return act(graph_module, transformed, part=True)

    def _endless(self, done: list[Entry]) -> RewriteError:
        sites: dict[str, str] = {entry.name: entry.site for entry in reversed(done)}  # the first site of each
        who = ", ".join(f"{name} (at {site})" for name, site in reversed(sites.items()))
        return RewriteError(
            f"the composition is not stable after {self.limit} rounds: in the last one, {who} still changed the graph. "
            "Leave out one of those that undo each other's work, or raise the limit. The graph is as it was before."
        )

    def _forward(self, gm: GraphModule, lint_and_recompile: bool) -> GraphModule:
        result = self.transform(gm)  # each part records itself
        return finish(result) if lint_and_recompile else result

    def _undone(self, gm: GraphModule) -> GraphModule:
        def undone() -> GraphModule:
            current = gm if self.inplace else shared_copy(gm)
            if self.limit is not None:  # by the record: the rounds are unknown
                parts = _parts_of(self)
                undo_entries(current, *(part.signature for part in parts), name=", ".join(map(name_of, parts)))
                return current
            for part in reversed(self.parts):
                result = part._backward(current)
                current = current if result is None else result
            return current

        return act(gm, undone, part=True)


class ReversibleComposition(Composition, ReversibleTransformation):
    """Reversible transformations run one after the other; made by `compose`."""


def _parts_of(one: Transformation) -> list[Transformation]:
    """Return the transformations that `one` runs, of compositions in it their parts."""
    return [inner for part in one.parts for inner in _parts_of(part)] if isinstance(one, Composition) else [one]


def compose(*args: Transformation, inplace: bool = True, until_stable: bool = False, limit: int = 10) -> Transformation:
    """Compose transformations into one, which runs them from first to last and lints and recompiles once.

    Every composition reverses, as every transformation does. The result is a `ReversibleTransformation` if every part
    is one.

    Args:
        args: the transformations; at least one.
        inplace: whether the graph module is changed, or a copy of it. The copy shares all weights that no
            transformation replaces, and the graph module itself is left as it is, forward and in reverse.
        until_stable: whether they run again, in the same order, until a round changes nothing. In reverse, all that
            is in force of each of them is undone by the record, as with a pass.
        limit: the largest number of such rounds. The call raises `RewriteError` with the names of those that still
            change something in the last one, and leaves the graph module as it was.

    Raises:
        ValueError: there is no transformation, or the limit is below 1.
        TypeError: an argument is not a `Transformation` (a class instead of its instance, for example), or the limit
            is no integer.

    >>> from fxopt import ChangeTrueDivToMulByInverse, MergeLinears
    >>> both = compose(ChangeTrueDivToMulByInverse(), MergeLinears())
    >>> isinstance(both, ReversibleTransformation)
    True

    A batch norm behind a dropout is fused in the second round, when the dropout is gone:

    >>> import torch
    >>> from fxopt import FuseBatchNorm1dInLinear, RemoveIdentities, capture
    >>> layers = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(), torch.nn.BatchNorm1d(4))
    >>> gm = capture(layers.eval(), (torch.rand(2, 3),))
    >>> stable = compose(FuseBatchNorm1dInLinear(), RemoveIdentities(), until_stable=True)
    >>> [node.name for node in stable(gm).graph.nodes]
    ['input_1', '_0', 'output']
    >>> [node.name for node in stable(gm, reverse=True).graph.nodes]
    ['input_1', '_0', '_1', '_2', 'output']
    """
    if not args:
        raise ValueError("compose needs at least one transformation")
    given: tuple[object, ...] = args
    for part in given:
        if not isinstance(part, Transformation):
            hint = "an instance, not the class" if isinstance(part, type) else "a fxopt.Transformation"
            raise TypeError(f"compose takes transformations; {part!r} must be {hint}")
    rounds: object = limit
    if not isinstance(rounds, int):
        raise TypeError(f"limit={limit!r} is no number of rounds; compose takes an integer, such as limit=10")
    if limit < 1:
        raise ValueError(f"limit={limit} lets no round run; compose takes 1 or more, such as limit=10")
    reversible = all(isinstance(part, ReversibleTransformation) for part in args)
    return (ReversibleComposition if reversible else Composition)(args, inplace, limit if until_stable else None)
