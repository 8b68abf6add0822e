"""A draft of an edit: the calls of the edited graph that differ, before the graph is changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch.fx import Node
from torch.fx.node import map_aggregate

from fxopt.core import GraphIndex


@dataclass(frozen=True, eq=False)
class Step:
    """A planned call. Its arguments hold nodes, and other steps for calls that the edit would add."""

    name: str
    """The name of the present or future node of the call."""
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    @classmethod
    def of(cls, node: Node, index: GraphIndex, args: Any = None, kwargs: Any = None) -> Step:
        """Return the call of `node`, with its own arguments or with others."""
        return cls(
            node.name,
            function_of(node, index),
            node.args if args is None else args,
            node.kwargs if kwargs is None else kwargs,
        )

    @classmethod
    def reading(cls, node: Node, old: Node, new: Node | Step, index: GraphIndex) -> Step:
        """Return the call of `node` with `new` wherever it reads `old`."""
        args, kwargs = map_aggregate(
            (node.args, dict(node.kwargs)), lambda value: new if value is old else value  # type: ignore[arg-type,return-value]
        )  # fmt: skip
        return cls.of(node, index, args, kwargs)

    def run(self, value_of: Callable[[Node | Step], Any]) -> Any:
        """Make the call; `value_of` gives the values of the nodes and steps among its arguments."""

        def value(part: Any) -> Any:
            return value_of(part) if isinstance(part, Node | Step) else part

        args: Any = map_aggregate(self.args, value)
        kwargs: Any = map_aggregate(dict(self.kwargs), value)
        return self.function(*args, **kwargs)


Draft = Mapping[Node, Step]
"""The nodes whose call would change, each with its new call."""


def function_of(node: Node, index: GraphIndex) -> Callable[..., Any]:
    """Return the function that a node applies to its arguments."""
    if node.op == "call_method":
        return method(str(node.target))
    if node.op == "call_module":
        return index.gm.get_submodule(str(node.target))
    if node.op == "output":
        return lambda result: result
    if not callable(node.target):
        raise TypeError(f"{node.name} is a {node.op}, which calls nothing")
    return node.target


def method(name: str) -> Callable[..., Any]:
    """Return a function that calls the method of this name on its first argument."""
    return lambda self, *args, **kwargs: getattr(self, name)(*args, **kwargs)
