"""A call that computes again the value of an earlier one goes: whoever reads it reads the earlier one."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

from torch.fx import Node

from fxopt.core import (
    Conditions,
    Exactness,
    GraphIndex,
    Match,
    Miss,
    Pass,
    Rewriter,
    Unmet,
    decide,
    info_of,
    is_tensor,
    operation_name,
    target_name,
    unaltered_conditions,
    unwritten_condition,
)
from fxopt.graph.nodes import inputs_of
from fxopt.graph.purity import is_pure, is_size
from fxopt.graph.replaceable import is_returned

_MODES = ("_set_grad_enabled", "_enter_autocast", "_exit_autocast", "_enter_inference_mode", "_exit_inference_mode")


@dataclass(frozen=True, eq=False)
class CommonSubexpression(Match):
    """A call, the anchor, and the earlier call of the same function on the same values."""

    only_read = ("first",)

    first: Node


class ShareCommonSubexpressions(Pass[CommonSubexpression]):
    """Replace `f(x) + g(f(x))`, where `f(x)` is computed twice, with `y + g(y)` of one `y = f(x)`.

    Of a function that depends on its arguments alone, the second call gives the bits of the first (compilers call it
    common subexpression elimination: Cocke 1970, Global common subexpression elimination). So it is computed once: one
    call and one result in memory less, while the first result is held until its last reader. A call stays where
    something writes in between to its inputs, or to either result later; where both results are returned; and where
    it draws random numbers.

    >>> import torch, fxopt
    >>> class Model(torch.nn.Module):
    ...     def forward(self, x):
    ...         return torch.relu(x + 1) * torch.sigmoid(x + 1)
    >>> gm = fxopt.capture(Model(), (torch.rand(3),))
    >>> [node.name for node in fxopt.ShareCommonSubexpressions()(gm).graph.nodes]
    ['x', 'add', 'relu', 'sigmoid', 'mul', 'output']
    >>> [node.name for node in fxopt.ShareCommonSubexpressions()(gm, reverse=True).graph.nodes]
    ['x', 'add', 'relu', 'add_1', 'sigmoid', 'mul', 'output']
    """

    label = "Compute once"
    needs = "two calls of one function on the same values"

    targets = ()

    def candidates(self, index: GraphIndex) -> Iterator[Node]:
        return iter([node for node in index.gm.graph.nodes if node.op.startswith("call_")])

    def match(self, node: Node, index: GraphIndex) -> CommonSubexpression | Miss | None:
        return _plan(index).found.get(node)

    def exactness(self, match: CommonSubexpression) -> Exactness:
        return Exactness.BITWISE

    def explain(self, match: CommonSubexpression) -> str:
        node, info = match.anchor, info_of(match.anchor)
        size = f", {info}," if info is not None else ""
        read = ", ".join(other.name for other in inputs_of(match.first))
        of = f" of {read}" if read else ""
        return (
            f"{node.name}{size} is {target_name(node)}{of}, which {match.first.name} has computed already: the same "
            "bits, so its readers read that"
        )

    def rewrite(self, match: CommonSubexpression, rewriter: Rewriter) -> None:
        read, sizes = inputs_of(match.anchor), _plan(rewriter.index).sizes
        rewriter.replace(match.anchor, match.first)
        while read:
            node = read.pop()
            if not node.users and node.name in rewriter.index.nodes and (node.op == "get_attr" or node in sizes):
                read += inputs_of(node)
                rewriter.erase(node)


@dataclass
class _Plan:
    """The calls of a graph that an earlier one has computed already."""

    index: GraphIndex
    found: dict[Node, CommonSubexpression | Miss] = field(default_factory=dict)
    same: dict[Node, Node] = field(default_factory=dict)
    """The earlier node with the same value, for each node that goes, and for sizes and reads of a tensor."""
    sizes: set[Node] = field(default_factory=set)
    """The nodes that give sizes, or another property of a tensor than its numbers, or compute with these."""

    def __post_init__(self) -> None:
        known: dict[Hashable, list[Node]] = {}
        for node in self.index.gm.graph.nodes:
            if is_size(node, self.sizes):
                self.sizes.add(node)
            key = self._key(node)
            if key is None:
                continue
            earlier = known.setdefault(key, [])
            answers = [self._answer(node, first) for first in earlier]
            match = next((one for one in answers if isinstance(one, CommonSubexpression)), None)
            if match is not None:
                self.same[node] = match.first
                if is_tensor(node):
                    self.found[node] = match
                continue
            misses = [one for one in answers if isinstance(one, Miss)]
            if misses and is_tensor(node):
                self.found[node] = max(misses, key=lambda miss: miss.met)
            earlier.append(node)

    def _answer(self, node: Node, first: Node) -> CommonSubexpression | Miss:
        if node.op == "get_attr":
            return CommonSubexpression(node, first)
        return decide(node, _conditions(node, first, self.index))

    def _key(self, node: Node) -> Hashable | None:
        """Return the function and the values of a call that depends on these alone; None for another node."""
        if node.op == "get_attr":
            return node.op, str(node.target)
        if not node.op.startswith("call_"):
            return None
        if not (is_tensor(node) and is_pure(node, self.index)) and node not in self.sizes:
            return None
        module = self.index.module_of(node)
        target: Any = node.target if module is None else id(module)
        is_index = operation_name(node) == "getitem"  # there a list gathers rows, and a tuple is one place
        return node.op, target, self._frozen(node.args, is_index), self._frozen(node.kwargs, is_index)

    def _frozen(self, value: Any, is_index: bool) -> Hashable:
        """Return an argument as a key: of nodes those with the same value are equal, of literals those of one type."""
        if isinstance(value, Node):
            return self.same.get(value, value)
        if isinstance(value, dict):
            return "dict", tuple(sorted((name, self._frozen(one, is_index)) for name, one in value.items()))
        if isinstance(value, list | tuple):
            kind = "list" if is_index and isinstance(value, list) else "tuple"
            return kind, tuple(self._frozen(one, is_index) for one in value)
        if isinstance(value, slice):
            return "slice", *(self._frozen(one, is_index) for one in (value.start, value.stop, value.step))
        return type(value), repr(value)


def _plan(index: GraphIndex) -> _Plan:
    return index.cached_for_a_run(_Plan, lambda: _Plan(index))


def _conditions(node: Node, first: Node, index: GraphIndex) -> Conditions[CommonSubexpression]:
    module = index.module_of(node)
    if module is not None:
        yield from unaltered_conditions(module, str(node.target), type(module))
        yield not module.training or Unmet(
            f"{node.target} is in training mode, where each call counts", "model.eval()", "training", "evaluation"
        )
    mode = next((one for one in _mode_changes(index) if first < one < node), None)
    yield mode is None or Unmet(
        f"{mode.name if mode is not None else ''} changes the mode of torch between {first.name} and {node.name}",
        actual="another mode",
        needed="one mode",
    )
    for tensor in dict.fromkeys((*inputs_of(first), *inputs_of(node), first)):
        yield unwritten_condition(tensor, first, node, index, may=True)
    if is_tensor(node):
        end = index.gm.graph.output_node()
        for tensor in (node, first):
            when = f"later, which {first.name} and {node.name} then share"
            yield unwritten_condition(tensor, node, end, index, when, may=True)
        yield not (is_returned(node, index) and is_returned(first, index)) or Unmet(
            f"{first.name} and {node.name} are both returned, and would be one tensor",
            actual="two outputs",
            needed="one of them inside the model",
        )
    return CommonSubexpression(node, first)


def _mode_changes(index: GraphIndex) -> list[Node]:
    """Return the calls that change how later ones compute, or whether they are recorded for gradients."""
    return index.cached_for_a_run(
        _mode_changes,
        lambda: [
            node
            for node in index.gm.graph.nodes
            if node.op == "call_function" and getattr(node.target, "__name__", "") in _MODES
        ],
    )
