"""Linear layers that read the same input become one."""

import operator
import re
from dataclasses import dataclass, replace
from typing import Any, Literal, Never

import torch
from torch import nn
from torch.fx import GraphModule, Node

from fxopt.core import (
    DECOMPOSED_LINEAR_CALLS,
    LINEAR_CALLS,
    Conditions,
    GraphIndex,
    LinearLayer,
    Match,
    Memory,
    Miss,
    Pass,
    Rewriter,
    TensorInfo,
    Unmet,
    calls_linear,
    copy_for,
    decide,
    decomposed_linear_miss,
    info_of,
    jump_condition,
    layer_conditions,
    layer_of,
    memory_needed,
    remove_tensors,
    unwritten_condition,
    with_tensors,
)
from fxopt.passes.stack import Stack


@dataclass(frozen=True, eq=False)
class LinearsOfOneInput(Match):
    only_read = ("input",)

    input: Node
    linear_nodes: tuple[Node, ...]
    linears: tuple[LinearLayer, ...]


class MergeLinears(Pass[LinearsOfOneInput]):
    """Replace `x A^T, x B^T, ...` with slices of one product, `x [A; B; ...]^T`.

    The rows of a product are independent of each other, so stacking the weights computes the same rows at once. One
    large product keeps a GPU or many cores busier than several small ones; on few cores it makes little difference
    (0.99 to 1.01), and if a slice is strided and later has to be contiguous, it costs a copy. A bias is never invented:
    linears with and without one are merged apart.

    >>> import torch, fxopt
    >>> class Projections(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.q, self.k = torch.nn.Linear(4, 3), torch.nn.Linear(4, 5)
    ...     def forward(self, x):
    ...         return self.q(x).sum() + self.k(x).sum()
    >>> gm = torch.fx.symbolic_trace(Projections())
    >>> fxopt.MergeLinears()(gm).q_k_merged
    Linear(in_features=4, out_features=8, bias=True)
    >>> sorted(dict(fxopt.MergeLinears()(gm, reverse=True).named_parameters()))
    ['k.bias', 'k.weight', 'q.bias', 'q.weight']

    Args:
        keep: the form in which the linears are retained for reversal. ``"copy"``: the linears as they are, so that the
            stacked weights are a second copy in memory of their own. ``"view"``: no second copy, see `Stack`.
    """

    label = "Merge linears"
    needs = "two or more Linear that read one tensor"

    targets = (nn.Linear, *LINEAR_CALLS, *DECOMPOSED_LINEAR_CALLS)

    def __init__(self, keep: Literal["copy", "view"] = "copy") -> None:
        if keep not in ("copy", "view"):
            raise ValueError(f'MergeLinears keeps "copy" or "view" for the way back, not {keep!r}')
        self.keep = keep

    def match(self, node: Node, index: GraphIndex) -> LinearsOfOneInput | Miss | None:
        if node.target in DECOMPOSED_LINEAR_CALLS:
            return decomposed_linear_miss(node)
        x = node.args[0] if node.args else node.kwargs.get("input")
        if not isinstance(x, Node) or len(x.users) == 1:
            return None
        return index.cached((type(self), x), lambda: _siblings(x, index)).get(node)

    def explain(self, match: LinearsOfOneInput) -> str:
        names = ", ".join(node.name for node in match.linear_nodes)
        sizes = " + ".join(str(linear.weight.shape[0]) for linear in match.linears)
        return f"{names} all read {match.input.name}, so one product with {sizes} stacked rows computes them all"

    def get_transformed_nodes(self, graph_module: GraphModule) -> list[Node]:
        """Return the merged linears, without the slices of their products; see `marked_nodes` for all."""
        return [node for node in self.marked_nodes(graph_module) if calls_linear(node)]

    def results(self, match: LinearsOfOneInput) -> tuple[Node, ...]:
        return match.linear_nodes

    def rewrite(self, match: LinearsOfOneInput, rewriter: Rewriter) -> None:
        stack = Stack.of(match.linears, rewriter, as_views=self.keep == "view")
        product = _product(match, stack, rewriter)
        for node, (start, end) in zip(match.linear_nodes, stack.rows):
            _set_rows(node, product, start, end, rewriter)
        for linear in match.linears:
            remove_tensors(linear, rewriter)
        if self.keep == "view":
            stack.keep_views(rewriter)


def _product(match: LinearsOfOneInput, stack: Stack, rewriter: Rewriter) -> Node:
    """Return the product of all the rows, of a module or of the function that the linears call."""
    first, path, nodes = match.linears[0], _merged_path(match.linears), match.linear_nodes
    info, width = info_of(first.node), stack.rows[-1][1]
    info = replace(info, shape=(*info.shape[:-1], width)) if info is not None else None
    if first.module is not None:
        linear = with_tensors(first.module, **stack.tensors)
        linear.out_features = width
        path = rewriter.free_path(path)
        rewriter.set_module(path, linear)
        return rewriter.call_module(path, (match.input,), info=info, made_from=nodes)
    readers = []
    for role, tensor in stack.tensors.items():
        tensor_path = rewriter.free_path(f"{path}_{role}")
        rewriter.set_tensor(tensor_path, tensor)
        readers.append(rewriter.get_attr(tensor_path, info=TensorInfo.of(tensor), made_from=nodes))
    name, args = path.rpartition(".")[2], (match.input, *readers)
    return rewriter.insert("call_function", first.node.target, args, None, name=name, info=info, made_from=nodes)


def _siblings(x: Node, index: GraphIndex) -> dict[Node, LinearsOfOneInput | Miss]:
    """Return the answer at each linear that reads `x`; empty if there is only one."""
    layers = [layer_of(node, index) for node in sorted(x.users)]
    linears = [layer for layer in layers if isinstance(layer, LinearLayer) and layer.input is x]
    found: dict[Node, LinearsOfOneInput | Miss] = {}
    if len(linears) < 2:
        return found
    groups: list[tuple[dict[str, object], list[LinearLayer]]] = []
    for linear in linears:
        miss = decide(linear.node, _member_conditions(linear, index))
        if miss is not None:
            found[linear.node] = miss
            continue
        kind = _kind(linear)
        for theirs, members in groups:
            if kind == theirs and index.writes_between(members[0].node, linear.node, x) is None:
                members.append(linear)
                break
        else:
            groups.append((kind, [linear]))
    for _, members in groups:
        if len(members) > 1:
            nodes = tuple(member.node for member in members)
            found[nodes[0]] = LinearsOfOneInput(nodes[0], x, nodes, tuple(members))
        else:
            (alone,) = members
            others = [group[0] for _, group in groups if group[0] is not alone]
            lonely = decide(alone.node, _lonely_conditions(alone, others, x, index))
            found[alone.node] = lonely
    return found


def _member_conditions(linear: LinearLayer, index: GraphIndex) -> Conditions[None]:
    """Require that `linear` can be merged at all."""
    yield from layer_conditions(linear, nn.Linear, index)
    yield jump_condition(linear.node, index)  # here, so that the others are merged without it


def _kind(linear: LinearLayer) -> dict[str, object]:
    """Return the properties that two linears must share to become one: named as the reason of a difference."""
    w, b, module = linear.weight, linear.bias, linear.module
    return {
        "what it calls": "a module" if module is not None else str(linear.node.target),
        "dtype": w.dtype,
        "device": w.device,
        "has a bias": b is not None,
        "trains its weight": w.requires_grad,
        "trains its bias": b is not None and b.requires_grad,
        "training mode": module is not None and module.training,
    }


def _lonely_conditions(linear: LinearLayer, others: list[LinearLayer], x: Node, index: GraphIndex) -> Conditions[Never]:
    """Require that `linear` has company; the reason is its difference from the most similar one of `others`."""
    yield from _member_conditions(linear, index)
    yield bool(others) or Unmet(
        f"no other linear that reads {x.name} can be merged", actual="none", needed="another linear"
    )
    kind = _kind(linear)
    other = max(others, key=lambda other: sum(kind[what] == value for what, value in _kind(other).items()))
    for what, theirs in _kind(other).items():
        yield kind[what] == theirs or Unmet(
            f"it differs from {other.name}, which reads {x.name} too: {what} is {kind[what]} here, {theirs} there",
            actual=f"{what}: {kind[what]}",
            needed=f"{what}: {theirs}",
        )
    first, last = sorted((other.node, linear.node))
    yield unwritten_condition(x, first, last, index, f"between {other.node.name} and {linear.node.name}")
    raise AssertionError(f"{linear.node} could be merged after all")


def _merged_path(linears: tuple[LinearLayer, ...]) -> str:
    paths = [re.sub(r"(?<=.)[._]weight$", "", linear.held["weight"].path) for linear in linears]
    parent, _, first = paths[0].rpartition(".")
    names = [path.rpartition(".")[2] for path in paths]
    name = "_".join(names) if len(names) <= 4 else f"{first}_and_{len(names) - 1}_more"
    return f"{parent}.{name}_merged" if parent else f"{name}_merged"


def _set_rows(node: Node, merged: Node, start: int, end: int, rewriter: Rewriter) -> None:
    """Let `node` be its part of the product."""
    operators = isinstance(node.target, torch._ops.OpOverload)
    function: Any = operator.getitem
    args: tuple[Any, ...] = (merged, (..., slice(start, end)))
    if operators:
        function, args = torch.ops.aten.slice.Tensor, (merged, -1, start, end)
    needed = memory_needed(node, rewriter.index, width=end - start)
    if needed is Memory.ANY:
        rewriter.set_call(node, "call_function", function, args, {})
        return
    rows = rewriter.call_function(
        function, args, before=node, name=f"{node.name}_slice", info=info_of(node), made_from=(node,)
    )
    rewriter.set_call(node, *copy_for(rows, needed, operators=operators))
