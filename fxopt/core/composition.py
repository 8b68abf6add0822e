"""Transformations run one after the other, as one."""

from __future__ import annotations

from torch.fx import GraphModule

from fxopt.core.gate import finish
from fxopt.core.ledger import act
from fxopt.core.signature import digest
from fxopt.core.transformation import ReversibleTransformation, Transformation
from fxopt.graph.copying import shared_copy


class Composition(Transformation):
    """Transformations run one after the other; made by `compose`."""

    def __init__(self, parts: tuple[Transformation, ...], inplace: bool) -> None:
        self.parts = parts
        self.inplace = inplace
        self.preserves_computation = all(part.preserves_computation for part in parts)

    @property
    def signature(self) -> str:
        return digest("fxopt.compose", {"parts": [part.signature for part in self.parts]})

    def transform(self, graph_module: GraphModule) -> GraphModule:
        def transformed() -> GraphModule:
            gm = graph_module if self.inplace else shared_copy(graph_module)
            for part in self.parts:
                gm = part(gm, lint_and_recompile=False)
            return gm

        return act(graph_module, transformed, part=True)

    def _forward(self, gm: GraphModule, lint_and_recompile: bool) -> GraphModule:
        result = self.transform(gm)  # each part records itself
        return finish(result) if lint_and_recompile else result

    def _undone(self, gm: GraphModule) -> GraphModule:
        def undone() -> GraphModule:
            current = gm if self.inplace else shared_copy(gm)
            for part in reversed(self.parts):
                result = part._backward(current)
                current = current if result is None else result
            return current

        return act(gm, undone, part=True)


class ReversibleComposition(Composition, ReversibleTransformation):
    """Reversible transformations run one after the other; made by `compose`."""


def compose(*args: Transformation, inplace: bool = True) -> Transformation:
    """Compose transformations into one, which runs them from first to last and lints and recompiles once.

    Every composition reverses, as every transformation does. The result is a `ReversibleTransformation` if every part
    is one.

    Args:
        args: the transformations; at least one.
        inplace: whether the graph module is changed, or a copy of it. The copy shares all weights that no
            transformation replaces, and the graph module itself is left as it is, forward and in reverse.

    Raises:
        ValueError: there is no transformation.
        TypeError: an argument is not a `Transformation` (a class instead of its instance, for example).

    >>> from fxopt import ChangeTrueDivToMulByInverse, MergeLinears
    >>> both = compose(ChangeTrueDivToMulByInverse(), MergeLinears())
    >>> isinstance(both, ReversibleTransformation)
    True
    """
    if not args:
        raise ValueError("compose needs at least one transformation")
    given: tuple[object, ...] = args
    for part in given:
        if not isinstance(part, Transformation):
            hint = "an instance, not the class" if isinstance(part, type) else "a fxopt.Transformation"
            raise TypeError(f"compose takes transformations; {part!r} must be {hint}")
    reversible = all(isinstance(part, ReversibleTransformation) for part in args)
    return (ReversibleComposition if reversible else Composition)(args, inplace)
