"""Linear layers that read the same input become one."""

import operator
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import torch
from torch import nn
from torch.fx import Node

from fxopt.core import GraphIndex, Match, Miss, Pass, Rewriter, info_of, input_of, module_miss, with_tensors

_SAME_MEMORY_OTHER_STRIDES = {"transpose", "permute", "unsqueeze", "squeeze", "getitem", "expand", "movedim",
                              "swapaxes", "chunk", "split", "unbind", "narrow", "select"}  # fmt: skip
_ANY_STRIDES = {
    "reshape",
    "flatten",
    "contiguous",
    "size",
    "dim",
    "softmax",
    "float",
    "half",
    "to",
    "type_as",
    "repeat_interleave",
}


@dataclass(frozen=True, eq=False)
class LinearsOfOneInput(Match):
    input: Node
    linear_nodes: tuple[Node, ...]
    linears: tuple[nn.Linear, ...]


class MergeLinears(Pass[LinearsOfOneInput]):
    """Replace `x A^T, x B^T, ...` with slices of one product, `x [A; B; ...]^T`.

    The rows of a product do not depend on each other, so stacking the weights computes the same rows at once. One
    large product keeps a GPU or many cores busier than several small ones; on few cores it makes little difference
    (0.99 to 1.01), and where a slice is not contiguous and later has to be, it costs a copy. A bias is never invented:
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
    """

    targets = (nn.Linear,)

    def match(self, node: Node, index: GraphIndex) -> LinearsOfOneInput | Miss | None:
        x = input_of(node)
        if x is None:
            return None
        return index.cached((type(self), x), lambda: _siblings(x, index)).get(node)

    def explain(self, match: LinearsOfOneInput) -> str:
        names = ", ".join(node.name for node in match.linear_nodes)
        sizes = " + ".join(str(linear.out_features) for linear in match.linears)
        return f"{names} all read {match.input.name}, so one product with {sizes} stacked rows computes them all"

    def rewrite(self, match: LinearsOfOneInput, rewriter: Rewriter) -> None:
        first, linears = match.anchor, match.linears
        ends = list(accumulate((linear.out_features for linear in linears), initial=0))
        path = rewriter.free_path(_merged_path(match.linear_nodes))
        rewriter.set_module(path, _stacked(linears))
        info = info_of(first)
        merged = rewriter.call_module(
            path,
            (match.input,),
            info=replace(info, shape=(*info.shape[:-1], ends[-1])) if info is not None else None,
            made_from=match.linear_nodes,
        )
        for node, (start, end) in zip(match.linear_nodes, pairwise(ends)):
            target, part = str(node.target), (..., slice(start, end))
            if _needs_contiguous(node, rewriter.index):
                rows = rewriter.call_function(
                    operator.getitem,
                    (merged, part),
                    before=node,
                    name=f"{node.name}_slice",
                    info=info_of(node),
                    made_from=(node,),
                )
                rewriter.set_call(node, "call_method", "contiguous", (rows,), {})
            else:
                rewriter.set_call(node, "call_function", operator.getitem, (merged, part), {})
            rewriter.remove_unused_module(target)


def _siblings(x: Node, index: GraphIndex) -> dict[Node, LinearsOfOneInput | Miss]:
    """What there is to say at each linear that reads `x`; nothing where there is only one."""
    nodes = [node for node in sorted(x.users) if isinstance(index.module_of(node), nn.Linear) and input_of(node) is x]
    found: dict[Node, LinearsOfOneInput | Miss] = {}
    if len(nodes) < 2:
        return found
    groups: list[tuple[tuple[object, ...], list[Node]]] = []
    for node in nodes:
        miss = module_miss(node, node, nn.Linear, index)
        if miss is not None:
            found[node] = miss
            continue
        kind = _kind(index.module_of(node))
        for other, members in groups:
            if other == kind and index.writes_between(members[0], node, x) is None:
                members.append(node)
                break
        else:
            groups.append((kind, [node]))
    for kind, members in groups:
        if len(members) == 1:
            found[members[0]] = _lonely_miss(members[0], kind, groups, x, index)
            continue
        linears = tuple(m for m in map(index.module_of, members) if isinstance(m, nn.Linear))
        found[members[0]] = LinearsOfOneInput(members[0], x, tuple(members), linears)
    return found


def _kind(linear: nn.Module | None) -> tuple[object, ...]:
    """What has to be equal for two linears to become one: named, as a reason that they do not."""
    assert isinstance(linear, nn.Linear)
    w, b = linear.weight, linear.bias
    return (
        w.dtype,
        w.device,
        b is not None,
        w.requires_grad,
        b is not None and b.requires_grad,
        linear.training,
    )


_KIND_NAMES = ("dtype", "device", "has a bias", "trains its weight", "trains its bias", "training mode")


def _lonely_miss(
    node: Node,
    kind: tuple[object, ...],
    groups: list[tuple[tuple[object, ...], list[Node]]],
    x: Node,
    index: GraphIndex,
) -> Miss:
    for other_kind, members in groups:
        other = members[0]
        if other is node:
            continue
        if other_kind == kind:
            first, last = sorted((other, node))
            writer = index.writes_between(first, last, x)
            what = f"{writer.name} changes {x.name} in place" if writer is not None else f"{x.name} may change"
            return Miss(node, f"{what} between {other.name} and {node.name}")
        what, mine, theirs = next((n, a, b) for n, a, b in zip(_KIND_NAMES, kind, other_kind) if a != b)
        return Miss(
            node,
            f"it differs from {other.name}, which reads {x.name} too: {what} is {mine} here, {theirs} there",
        )
    return Miss(node, f"no other linear that reads {x.name} can be merged")


def _merged_path(nodes: tuple[Node, ...]) -> str:
    parent, _, first = str(nodes[0].target).rpartition(".")
    names = [str(node.target).rpartition(".")[2] for node in nodes]
    name = "_".join(names) if len(names) <= 4 else f"{first}_and_{len(names) - 1}_more"
    return f"{parent}.{name}_merged" if parent else f"{name}_merged"


def _stacked(linears: tuple[nn.Linear, ...]) -> nn.Linear:
    first = linears[0]
    with torch.no_grad():
        weight = torch.cat([linear.weight for linear in linears])
        bias = None if first.bias is None else torch.cat([linear.bias for linear in linears])
    weight.requires_grad_(first.weight.requires_grad)
    if bias is not None:
        bias.requires_grad_(first.bias.requires_grad)
    merged: nn.Linear = with_tensors(first, weight=weight, bias=bias)
    merged.out_features = sum(linear.out_features for linear in linears)
    return merged


def _needs_contiguous(node: Node, index: GraphIndex) -> bool:
    """Whether something downstream may ask more of the memory of `node` than a slice can give.

    The rows of a slice lie apart, so merging its last dimension with others by ``view`` fails. Where all users are
    known to take any strides, or split the last dimension only, no copy is needed.
    """
    todo = [(user, node) for user in node.users]
    seen: set[Node] = set()
    while todo:
        user, tensor = todo.pop()
        name = user.target if user.op == "call_method" else getattr(user.target, "__name__", "")
        if user in seen or index.is_fresh(user) or name in _ANY_STRIDES:
            continue
        seen.add(user)
        follows = name in _SAME_MEMORY_OTHER_STRIDES or (
            name in ("view", "unflatten") and tensor is node and _splits_last_dimension(node, user)
        )
        if not follows:
            return True
        todo += [(later, user) for later in user.users]
    return False


def _splits_last_dimension(node: Node, view: Node) -> bool:
    before, after = info_of(node), info_of(view)
    if before is None or after is None:
        return False
    product = 1
    for size in reversed(after.shape):
        if not isinstance(size, int) or not isinstance(before.shape[-1], int) or product > before.shape[-1]:
            return False
        product *= size
        if product == before.shape[-1]:
            return True
    return False
