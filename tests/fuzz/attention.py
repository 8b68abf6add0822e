"""Attention as models spell it, as one instruction."""

import math
import operator

import torch
import torch.nn.functional as F
from torch.fx import Node

from tests.fuzz.builder import Builder, Choices
from tests.fuzz.layers import new_linear


def attention(build: Builder, x: Node, choose: Choices) -> Node:
    x = build.ranked(x, 3)
    _, length, width = build.shape(x)
    heads, bias = choose(2, 1), choose(True, False)
    if choose("three", "one") == "one":
        packed = build.call(new_linear(build, width, 3 * width, bias), x, choose)
        q, k, v = _thirds(build, packed, width, choose)
    else:
        q, k, v = (build.call(new_linear(build, width, width, bias), x, Choices(choose.left)) for _ in range(3))
    if choose(False, False, True):
        q = build.method("div_", q, math.sqrt(width // heads))
    q, k, v = (_split_heads(build, each, length, heads, choose) for each in (q, k, v))
    if choose("spelled out", "one call") == "one call":
        mixed = build.function(F.scaled_dot_product_attention, q, k, v)
    else:
        scores = build.function(torch.matmul, q, build.method("transpose", k, choose(-2, -1), choose(-1, -2)))
        scores = build.function(
            choose(operator.truediv, torch.div, operator.itruediv), scores, choose(2.0, math.sqrt(3))
        )
        mixed = build.function(torch.matmul, build.method("softmax", scores, dim=-1), v)
    joined = build.method("reshape", build.method("transpose", mixed, 1, 2), -1, length, width)
    out = build.call(new_linear(build, width, width), joined, choose)
    return build.function(operator.add, x, out)


def _thirds(build: Builder, packed: Node, width: int, choose: Choices) -> tuple[Node, ...]:
    how = choose("chunk", "split", "slices")
    if how == "slices":
        ends = range(0, 3 * width, width)
        return tuple(build.function(operator.getitem, packed, (..., slice(i, i + width))) for i in ends)
    parts = build.method(how, packed, 3 if how == "chunk" else width, dim=-1)
    return tuple(build.function(operator.getitem, parts, i) for i in range(3))


def _split_heads(build: Builder, x: Node, length: int, heads: int, choose: Choices) -> Node:
    size = build.shape(x)[-1] // heads
    if choose("view", "unflatten") == "view":
        parted = build.method("view", x, -1, length, heads, size)
    else:
        parted = build.method("unflatten", x, -1, (heads, size))
    return build.method("transpose", parted, 1, 2)
