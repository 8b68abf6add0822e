"""Attention that is written out as two products and a softmax becomes one call."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch.fx import Node

from fxopt.core import (
    Conditions,
    GraphIndex,
    Match,
    Memory,
    Miss,
    Pass,
    Rewriter,
    TensorInfo,
    Unmet,
    copy_for,
    decide,
    does_nothing,
    info_of,
    memory_needed,
    present,
    target_name,
    unwritten_condition,
)
from fxopt.graph.guards import autocast_condition
from fxopt.graph.operator_table import DROPOUTS
from fxopt.graph.ownership import readers_condition
from fxopt.graph.site import NEEDS_SHAPES
from fxopt.rules.spellings import Spelling, spelled, targets_of


@dataclass(frozen=True, eq=False)
class AttentionWrittenOut(Match):
    """The second product, the anchor, and all that leads to it from the queries, keys and values."""

    only_read = ("query", "key", "value", "mask")

    query: Node
    key: Node
    value: Node
    mask: Node | None
    scale: float
    inner: tuple[Node, ...]
    """The calls that go, the last first."""


class FuseAttention(Pass[AttentionWrittenOut]):
    """Replace `softmax(q k^T * c + mask) v` with one call of `torch.nn.functional.scaled_dot_product_attention`.

    Attention weighs the values of all places by a softmax of the scores, `q k^T / sqrt(d)` (Vaswani et al. 2017,
    arXiv:1706.03762, section 3.2.1). Written out, the scores of all pairs of places stand in memory, and are read and
    written for the scale, the mask and the softmax. The fused call goes through the keys block by block, with the
    maximum and the sum of the softmax kept up to date (Dao et al. 2022, arXiv:2205.14135), so the memory grows with the
    length, not with its square. Sums run in another order, so results differ by rounding. Where a row has no finite
    score, since its mask is minus infinity throughout, the softmax is NaN, and the fused call gives zeros.

    >>> import torch, fxopt
    >>> class Attention(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.out = torch.nn.Linear(128, 128)
    ...     def forward(self, q, k, v):
    ...         mixed = torch.softmax(q @ k.transpose(-2, -1) / 8, dim=-1) @ v
    ...         return self.out(mixed.transpose(1, 2).flatten(2))
    >>> gm = fxopt.capture(Attention().eval(), tuple(torch.rand(1, 2, 5, 64) for _ in "qkv"))
    >>> [node.name for node in fxopt.FuseAttention()(gm).graph.nodes]
    ['q', 'k', 'v', 'matmul_1', 'transpose_1', 'flatten', 'out', 'output']
    >>> len(fxopt.FuseAttention()(gm, reverse=True).graph.nodes)
    12
    """

    label = "Fuse attention"
    needs = "attention written out: matmul, softmax, matmul"

    targets = targets_of("matmul")

    def match(self, node: Node, index: GraphIndex) -> AttentionWrittenOut | Miss | None:
        spelling = _spelled(node, index)
        if spelling is None or spelling.name != "matmul":
            return None
        weights, value = spelling.arguments.get("input"), spelling.arguments.get("other")
        if not isinstance(weights, Node) or not isinstance(value, Node):
            return None
        way = _to_softmax(weights, index)
        return decide(node, self._conditions(node, way, value, index)) if way else None

    def _conditions(
        self, node: Node, way: list[Node], value: Node, index: GraphIndex
    ) -> Conditions[AttentionWrittenOut]:
        yield autocast_condition(node, index)
        for step in way[:-1]:
            yield does_nothing(step, index) or _operation(step, index) == "to" or _draws(step)
        softmax = way[-1]
        scores, mask = yield from _sum_of(softmax, index)
        product, scale = yield from _scaled(scores, softmax, index)
        query, transposed, key = yield from _product_of(product, index)
        total = [_input(softmax, index)] if mask is not None else []
        inner = list(dict.fromkeys((*way, *total, scores, product)))
        for reader, read in zip([node, *inner], inner):
            others = [user for user in read.users if user is not reader]
            yield readers_condition(read, others, aside=", which the fused call would leave out,")
        yield from _shape_conditions(query, key, value, node)
        yield from _softmax_conditions(way, query, index)
        if mask is not None:
            yield from _mask_conditions(mask, product, total[0], query)
        for tensor in (query, key, *([mask] if mask is not None else [])):
            yield unwritten_condition(tensor, transposed, node, index, may=True)
        going = [transposed] if list(transposed.users) == [product] else []
        return AttentionWrittenOut(node, query, key, value, mask, scale, (*inner, *going))

    def explain(self, match: AttentionWrittenOut) -> str:
        info = info_of(match.inner[0])
        scores = " x ".join(map(str, info.shape)) if info is not None else "all"
        masked = f" + {match.mask.name}" if match.mask is not None else ""
        told = (
            f"{match.anchor.name} is softmax({match.query.name} {match.key.name}^T * {match.scale:.4g}{masked}) "
            f"{match.value.name} in one call, which leaves the {scores} scores out of memory"
        )
        if match.mask is None:
            return told
        return f"{told}; where {match.mask.name} is minus infinity for a whole row, that row is NaN before and 0 after"

    def rewrite(self, match: AttentionWrittenOut, rewriter: Rewriter) -> None:
        node, operators = match.anchor, isinstance(match.anchor.target, torch._ops.OpOverload)
        function: Any = F.scaled_dot_product_attention
        if operators:
            function = torch.ops.aten.scaled_dot_product_attention.default
        args = (match.query, match.key, match.value)
        keywords: dict[str, Any] = {"attn_mask": match.mask} if match.mask is not None else {}
        keywords["scale"] = match.scale
        needed = memory_needed(node, rewriter.index, turned=True)
        if needed is Memory.ANY:
            rewriter.set_call(node, "call_function", function, args, keywords)
        else:
            name = f"{node.name}_attention"
            fused = rewriter.call_function(
                function, args, keywords, before=node, name=name, info=info_of(node), made_from=(node,)
            )
            rewriter.set_call(node, *copy_for(fused, needed, operators=operators))
        for gone in match.inner:
            rewriter.erase(gone)


# ---- the way up from the second product


def _spelled(node: Node, index: GraphIndex) -> Spelling | None:
    return spelled(node, index.module_of(node))


def _operation(node: Node, index: GraphIndex) -> str:
    spelling = _spelled(node, index)
    return spelling.name if spelling is not None else ""


def _input(node: Node, index: GraphIndex) -> Any:
    spelling = _spelled(node, index)
    return spelling.arguments.get("input") if spelling is not None else None


def _to_softmax(node: Node, index: GraphIndex) -> list[Node]:
    """Return the nodes from `node` up to a softmax, through dropouts and casts; empty if there is none."""
    way = [node]
    while (operation := _operation(way[-1], index)) != "softmax":
        before = _input(way[-1], index)
        dropout = operation in DROPOUTS
        if not (dropout or operation == "to") or not isinstance(before, Node):
            return []
        way.append(before)
    return way


def _sum_of(softmax: Node, index: GraphIndex) -> Conditions[tuple[Node, Node | None]]:
    """Require scores, with or without a mask added, and return both."""
    added = _input(softmax, index)
    spelling = _spelled(added, index) if isinstance(added, Node) else None
    if spelling is None or spelling.name != "add":
        found = yield from present(added if isinstance(added, Node) else None, lambda: _no_scores(softmax, added))
        return found, None
    yield spelling.arguments.get("alpha", 1) == 1 or Unmet(
        f"{added.name} adds a multiple of a tensor", actual=str(spelling.arguments.get("alpha")), needed="1"
    )
    first, second = spelling.arguments.get("input"), spelling.arguments.get("other")
    pair = yield from present(
        (first, second) if isinstance(first, Node) and isinstance(second, Node) else None,
        lambda: Unmet(f"{added.name} adds a number to the scores", actual=f"{first} + {second}", needed="two tensors"),
    )
    return pair if _leads_to_product(pair[0], index) or not _leads_to_product(pair[1], index) else (pair[1], pair[0])


def _leads_to_product(node: Node, index: GraphIndex) -> bool:
    operation = _operation(node, index)
    if operation in ("mul", "div"):
        factors = _factors(node, index)
        return factors is not None and _operation(factors.tensor, index) == "matmul"
    return operation == "matmul"


class _Factors(NamedTuple):
    tensor: Node
    number: float


def _factors(node: Node, index: GraphIndex) -> _Factors | None:
    """Return the tensor of a product or quotient with a number, and the factor; None for another call."""
    spelling = _spelled(node, index)
    if spelling is None or spelling.name not in ("mul", "div") or spelling.arguments.get("rounding_mode") is not None:
        return None
    a, b = spelling.arguments.get("input"), spelling.arguments.get("other")
    if spelling.name == "mul" and not isinstance(a, Node):
        a, b = b, a
    if not isinstance(a, Node) or isinstance(b, bool) or not isinstance(b, int | float):
        return None
    if spelling.name == "div":
        return _Factors(a, 1 / b) if b else None
    return _Factors(a, float(b))


def _scaled(scores: Node, softmax: Node, index: GraphIndex) -> Conditions[tuple[Node, float]]:
    """Require a product of matrices, times a number or not, and return both."""
    operation = _operation(scores, index)
    if operation == "matmul":
        return scores, 1.0
    yield operation in ("mul", "div") or _no_scores(softmax, scores)
    product, scale = yield from present(
        _factors(scores, index),
        lambda: Unmet(
            f"{scores.name} scales by a tensor, and the fused call by a number",
            actual=", ".join(map(str, scores.args)),
            needed="a number",
        ),
    )
    yield _operation(product, index) == "matmul" or _no_scores(softmax, product)
    yield (math.isfinite(scale) and scale > 0) or Unmet(
        f"{scores.name} scales by {scale}", actual=str(scale), needed="a positive number"
    )
    return product, scale


def _draws(dropout: Node) -> Unmet:
    return Unmet(
        f"{dropout.name} ({target_name(dropout)}) sets weights to zero at random, and the fused call would draw others",
        remedy="model.eval()",
        actual="dropout in training mode",
        needed="evaluation",
    )


def _no_scores(softmax: Node, found: Any) -> Unmet:
    shown = f"{found.name} ({target_name(found)})" if isinstance(found, Node) else str(found)
    return Unmet(
        f"the softmax {softmax.name} is of {shown}, not of a product of matrices, scaled and with one tensor added",
        actual=shown,
        needed="q k^T, times a number, plus a mask",
    )


def _product_of(product: Node, index: GraphIndex) -> Conditions[tuple[Node, Node, Node]]:
    """Require `q k^T` of a transposed key, and return the query, the node that transposes, and the key."""
    spelling = _spelled(product, index)
    arguments = spelling.arguments if spelling is not None else {}
    query, turned = arguments.get("input"), arguments.get("other")
    operation = _operation(turned, index) if isinstance(turned, Node) else ""
    shown = f"{turned.name} ({target_name(turned)})" if isinstance(turned, Node) else str(turned)
    turn = _spelled(turned, index) if isinstance(turned, Node) and operation == "transpose" else None
    key = turn.arguments.get("input") if turn is not None else None
    query, transposed, key, turn = yield from present(
        (query, turned, key, turn)
        if isinstance(query, Node) and isinstance(turned, Node) and isinstance(key, Node) and turn is not None
        else None,
        lambda: Unmet(
            f"the second factor of {product.name} is {shown}, not the transpose of a key",
            remedy="write the key as k.transpose(-2, -1)" if operation == "permute" else "",
            actual=shown,
            needed="k.transpose(-2, -1)",
        ),
    )
    rank = len(info.shape) if (info := info_of(key)) is not None else None
    dims = [turn.arguments.get(name) for name in ("dim0", "dim1")]
    last = rank is not None and sorted(dim % rank for dim in dims if isinstance(dim, int)) == [rank - 2, rank - 1]
    yield (
        last
        or set(dims) == {-2, -1}
        or Unmet(
            f"{transposed.name} swaps the dimensions {dims} of the key",
            remedy=NEEDS_SHAPES if rank is None else "",
            actual=str(dims),
            needed="the last two",
        )
    )
    return query, transposed, key


# ---- shapes and dtypes


def _known(node: Node) -> Conditions[TensorInfo]:
    return present(
        info_of(node),
        lambda: Unmet(f"the shape and dtype of {node.name} are unknown", NEEDS_SHAPES, "unknown", "known"),
    )


def _shape_conditions(query: Node, key: Node, value: Node, node: Node) -> Conditions[None]:
    """Require queries, keys and values of one dtype, for the same batch and heads."""
    q = yield from _known(query)
    yield q.dtype.is_floating_point or Unmet(f"{query.name} is {q.dtype}", actual=str(q.dtype), needed="floats")
    for name, other in (("key", key), ("value", value)):
        found = yield from _known(other)
        yield (found.dtype, found.device) == (q.dtype, q.device) or Unmet(
            f"{query.name} is {q.dtype} on {q.device}, and the {name} {other.name} is {found.dtype} on {found.device}",
            actual=f"{found.dtype} on {found.device}",
            needed=f"{q.dtype} on {q.device}",
        )
        yield (len(q.shape) == 4 and found.shape[:-2] == q.shape[:-2]) or Unmet(
            f"{query.name} is {q}, and the {name} {other.name} is {found}; the fused call takes "
            "one batch and number of heads",
            actual=f"{q} and {found}",
            needed="4 dimensions, the first two alike",
        )
    result = yield from _known(node)
    yield result.dtype == q.dtype or Unmet(
        f"{node.name} is {result.dtype}, and {query.name} {q.dtype}", actual=str(result.dtype), needed=str(q.dtype)
    )


def _softmax_conditions(way: list[Node], query: Node, index: GraphIndex) -> Conditions[None]:
    """Require a softmax over the keys, in no narrower dtype than that of the query."""
    softmax = way[-1]
    spelling = _spelled(softmax, index)
    dim = spelling.arguments.get("dim") if spelling is not None else None
    yield dim in (-1, 3) or Unmet(f"{softmax.name} is over dimension {dim}", actual=str(dim), needed="the last one")
    q = yield from _known(query)
    for step in way:
        info = yield from _known(step)
        enough = info.dtype.is_floating_point and info.dtype.itemsize >= q.dtype.itemsize
        yield (enough and info.device == q.device) or Unmet(
            f"{step.name} is {info.dtype} on {info.device}, and {query.name} {q.dtype} on {q.device}",
            actual=f"{info.dtype} on {info.device}",
            needed=f"{q.dtype} on {q.device}, or more digits",
        )


def _mask_conditions(mask: Node, product: Node, added: Node, query: Node) -> Conditions[None]:
    """Require a mask of the dtype of the query, which leaves the shape of the scores as it is."""
    q = yield from _known(query)
    found = yield from _known(mask)
    scores = yield from _known(product)
    total = yield from _known(added)
    yield found.dtype == q.dtype or Unmet(
        f"the mask {mask.name} is {found.dtype}, and {query.name} {q.dtype}",
        actual=str(found.dtype),
        needed=str(q.dtype),
    )
    yield (2 <= len(found.shape) <= 4 and total.shape == scores.shape) or Unmet(
        f"the mask {mask.name} is {found}, and the scores are {scores}",
        actual=str(found),
        needed="2 to 4 dimensions that fit the scores",
    )
