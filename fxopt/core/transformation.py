"""Transformations of graph modules, those that can be reversed, and their composition.

The names, call forms and return values are those of ``optimum.fx.optimization``, so that code written for it
runs with one import changed.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Set
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fxopt.core.copying import shared_copy
from fxopt.core.edit import MARKS


class Transformation(ABC):
    """A transformation of a `torch.fx.GraphModule`: implement `transform`, and call the instance.

    A transformation that changes every multiplication to an addition:

    >>> import operator
    >>> class MulToAdd(Transformation):
    ...     def transform(self, graph_module):
    ...         for node in graph_module.graph.nodes:
    ...             if node.op == "call_function" and node.target is operator.mul:
    ...                 node.target = operator.add
    ...                 self.mark_as_transformed(node)
    ...         return graph_module
    >>> gm = torch.fx.symbolic_trace(lambda x: x * 3 * x)
    >>> MulToAdd()(gm)(torch.tensor(5.0))
    tensor(13.)
    >>> MulToAdd().get_transformed_nodes(gm)
    [mul, mul_1]
    """

    preserves_computation: bool = False
    """Whether the transformed graph computes the same function, up to rounding."""

    @abstractmethod
    def transform(self, graph_module: GraphModule) -> GraphModule:
        """Transform `graph_module`, in place or not, and return the result."""

    def __call__(self, graph_module: GraphModule, lint_and_recompile: bool = True) -> GraphModule:
        """Transform, then lint and recompile the result unless told otherwise (when more is to come)."""
        return _finish(self.transform(graph_module), lint_and_recompile)

    @property
    def signature(self) -> str:
        """A digest of the class and the instance's attributes, the same in every process and on every machine."""
        kind = type(self)
        state = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        return _digest(f"{kind.__module__}.{kind.__qualname__}", state)

    def mark_as_transformed(self, node: Node) -> None:
        """Mark `node` as made or changed by this transformation."""
        marks = node.meta.get(MARKS, ())
        if self.signature not in marks:
            node.meta[MARKS] = (*marks, self.signature)

    def transformed(self, node: Node) -> bool:
        """Whether `node` was made or changed by a transformation of this signature."""
        return self.signature in node.meta.get(MARKS, ())

    def get_transformed_nodes(self, graph_module: GraphModule) -> list[Node]:
        """The nodes made or changed by a transformation of this signature, in the order of the graph."""
        signature = self.signature
        return [node for node in graph_module.graph.nodes if signature in node.meta.get(MARKS, ())]


class ReversibleTransformation(Transformation):
    """A transformation with a way back: implement `transform` and `reverse`.

    One that doubles what a multiplication gives, and halves it back:

    >>> import operator
    >>> class DoubleMul(ReversibleTransformation):
    ...     def transform(self, graph_module):
    ...         for node in graph_module.graph.nodes:
    ...             if node.target is operator.mul and not self.transformed(node):
    ...                 node.args = (node.args[0], node.args[1] * 2)
    ...                 self.mark_as_transformed(node)
    ...         return graph_module
    ...     def reverse(self, graph_module):
    ...         for node in self.get_transformed_nodes(graph_module):
    ...             node.args = (node.args[0], node.args[1] / 2)
    ...             self.mark_as_restored(node)
    ...         return graph_module
    >>> gm = torch.fx.symbolic_trace(lambda x: x * 3.0)
    >>> DoubleMul()(gm)(torch.tensor(5.0))
    tensor(30.)
    >>> DoubleMul()(gm, reverse=True)(torch.tensor(5.0))
    tensor(15.)
    """

    @abstractmethod
    def reverse(self, graph_module: GraphModule) -> GraphModule:
        """Bring `graph_module` back to what it was before `transform`, and return it."""

    def __call__(
        self, graph_module: GraphModule, lint_and_recompile: bool = True, reverse: bool = False
    ) -> GraphModule:
        """Transform, or reverse, then lint and recompile the result unless told otherwise."""
        act = self.reverse if reverse else self.transform
        return _finish(act(graph_module), lint_and_recompile)

    def _reverse_as_part(self, graph_module: GraphModule) -> GraphModule:
        """Reverse within a composition, where having had nothing to do is nothing to warn of."""
        return self(graph_module, lint_and_recompile=False, reverse=True)

    def mark_as_restored(self, node: Node) -> None:
        """Take the mark of `mark_as_transformed` off `node`.

        Raises:
            ValueError: `node` does not bear the mark.
        """
        marks = node.meta.get(MARKS, ())
        if self.signature not in marks:
            raise ValueError(
                f"{node.name} was not transformed by this {type(self).__name__}, so it cannot be marked as restored"
            )
        left = tuple(mark for mark in marks if mark != self.signature)
        if left:
            node.meta[MARKS] = left
        else:
            del node.meta[MARKS]


class Composition(Transformation):
    """Transformations run one after the other; made by `compose`."""

    def __init__(self, parts: tuple[Transformation, ...], inplace: bool) -> None:
        self.parts = parts
        self.inplace = inplace
        self.preserves_computation = all(part.preserves_computation for part in parts)

    @property
    def signature(self) -> str:
        return _digest("fxopt.compose", {"parts": [part.signature for part in self.parts]})

    def transform(self, graph_module: GraphModule) -> GraphModule:
        gm = graph_module if self.inplace else shared_copy(graph_module)
        for part in self.parts:
            gm = part(gm, lint_and_recompile=False)
        return gm


class ReversibleComposition(Composition, ReversibleTransformation):
    """Reversible transformations run one after the other; made by `compose`."""

    def reverse(self, graph_module: GraphModule) -> GraphModule:
        gm = graph_module if self.inplace else shared_copy(graph_module)
        for part in reversed(self.parts):
            assert isinstance(part, ReversibleTransformation)
            gm = part._reverse_as_part(gm)
        return gm


def compose(*args: Transformation, inplace: bool = True) -> Transformation:
    """Compose transformations into one, which runs them from first to last and lints and recompiles once.

    The result is a `ReversibleTransformation` if every part is one.

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


def _finish(gm: GraphModule, lint_and_recompile: bool) -> GraphModule:
    if lint_and_recompile:
        gm.graph.lint()
        gm.recompile()
    return gm


def _digest(name: str, state: Mapping[str, Any]) -> str:
    text = "\n".join([name, *(f"{key}={_canonical(state[key])}" for key in sorted(state))])
    return hashlib.sha256(text.encode()).hexdigest()


def has_default_repr(value: object) -> bool:
    """Whether the repr of `value` is that of `object`, which holds an address and so differs from run to run."""
    return type(value).__dict__.get("__repr__", type(value).__repr__) == object.__repr__


def _canonical(value: Any) -> str:
    """`value` as text that tells different values apart, 1 from 1.0 and True too, and is the same everywhere."""
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, torch.Tensor):
        data = value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
        return f"{kind}({tuple(value.shape)},{value.dtype},{hashlib.sha256(data).hexdigest()})"
    if isinstance(value, Transformation):
        return f"{kind}({value.signature})"
    if isinstance(value, Mapping):
        items = sorted(f"{_canonical(key)}:{_canonical(item)}" for key, item in value.items())
        return f"{kind}({','.join(items)})"
    if isinstance(value, Set):
        return f"{kind}({','.join(sorted(map(_canonical, value)))})"
    if isinstance(value, str | bytes):
        return f"{kind}({value!r})"
    if isinstance(value, Iterable):
        return f"{kind}({','.join(map(_canonical, value))})"
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    if has_default_repr(value):
        return f"{kind}({_canonical(vars(value)) if hasattr(value, '__dict__') else ''})"
    return f"{kind}({value!r})"
