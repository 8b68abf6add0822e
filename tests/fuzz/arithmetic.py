"""Instructions that compute: divisions in every spelling, and their surroundings."""

import math
import operator

import torch
import torch.nn.functional as F
from torch.fx import Node

from tests.fuzz.builder import Builder, Choices

CONSTANTS = (3.0, 8.0, 8, 49, 3, 0.1, -2, math.sqrt(48), 1, 0.0, 0, 1e-310, 1e39, math.inf, math.nan, True, 2**70)


def divide(build: Builder, x: Node, choose: Choices) -> Node:
    c, how = choose(*CONSTANTS), choose("/", "torch", "method", "in place", "/=", "keyword", "named", "size")
    if how == "/":
        return build.function(operator.truediv, x, c)
    if how == "torch":
        return build.function(choose(torch.div, torch.true_divide), x, c)
    if how == "method":
        return build.method(choose("div", "true_divide"), x, c)
    if how == "in place":
        return build.method(choose("div_", "true_divide_"), _own_memory(build, x, choose), c)
    if how == "/=":
        return build.function(operator.itruediv, _own_memory(build, x, choose), c)
    if how == "keyword":
        return build.method("div", x, other=c)
    if how == "named":
        return build.function(torch.div, input=x, other=c)
    size = build.function(operator.truediv, build.method("size", x, 0), 49)
    return build.function(choose(operator.add, operator.mul), x, size)


def _own_memory(build: Builder, x: Node, choose: Choices) -> Node:
    return build.function(operator.mul, x, 0.75) if choose(True, False) else x


def inverse(build: Builder, x: Node, choose: Choices) -> Node:
    large = build.function(operator.add, build.function(torch.abs, x), 2.0)
    return build.function(operator.truediv, choose(1.0, x), large)


def integers(build: Builder, x: Node, choose: Choices) -> Node:
    """An integer tensor divided by a constant."""
    whole = build.function(torch.full_like, x, 5, dtype=torch.long)  # rounding `x` would make jumps of rounding errors
    how, c = choose("/", "floor", "trunc", "torch", "//"), choose(*CONSTANTS[:9])
    if how in ("floor", "trunc"):
        quotient = build.function(torch.div, whole, c, rounding_mode=how)
    else:
        functions = {"/": operator.truediv, "torch": torch.div, "//": operator.floordiv}
        quotient = build.function(functions[how], whole, c)
    return build.function(operator.add, x, build.method("to", quotient, build.dtype))


def jump(build: Builder, x: Node, choose: Choices) -> Node:
    """Whole numbers, times a constant and divided by it, before an operation that tells a last bit apart."""
    c = choose(49, 41, 3, 8, 47)
    ones = build.function(torch.ones_like, x)  # rounding `x` would make jumps of rounding errors
    value = build.function(operator.mul, build.method("cumsum", ones, -1), float(c))
    how = choose("/", "method", "in place", "moved first", "scaled first")
    if how == "/":
        value = build.function(operator.truediv, value, c)
    elif how == "method":
        value = build.method("div", value, c)
    elif how == "in place":
        build.method("div_", value, c)
    elif how == "moved first":
        value = build.method("view", build.function(operator.truediv, value, c), -1)
        value = build.method("view_as", value, x)
    else:
        value = build.function(operator.add, build.function(operator.truediv, value, c), 0)
    end = choose("floor", "long", "remainder", "eq", "round", "argmax", "//", "ceil")
    if end != "argmax":
        value = _moved(build, value, choose)
    if end in ("floor", "round", "ceil", "long"):
        value = build.method(end, value)
    elif end == "//":
        value = build.function(operator.floordiv, value, 1)
    elif end == "argmax":
        value = build.method(end, value, -1, keepdim=True)
    else:
        value = build.method(end, value, 1)
    value = build.method("to", value, build.dtype)
    return build.function(
        operator.add, x, value if build.shape(value) == build.shape(x) else build.method("mean", value)
    )


def _moved(build: Builder, value: Node, choose: Choices) -> Node:
    """The numbers of a value, or some of them, in other places."""
    how = choose("as they are", "pool", "largest", "flip", "nearest", "median", "cumsum", "outer")
    if how == "pool":
        return build.function(F.max_pool1d, value, 1)
    if how == "largest":
        return build.method(choose("amax", "amin"), value, -1, keepdim=True)
    if how == "flip":
        return build.function(torch.fliplr, value)
    if how == "nearest":
        return build.function(F.interpolate, build.ranked(value, 3), scale_factor=2.0)
    if how == "outer":
        row = build.method("reshape", value, -1)
        return build.function(torch.outer, row, build.method("new_ones", row, 2))
    if how == "median":
        return build.function(torch.median, value)
    return build.method("cumsum", value, 0) if how == "cumsum" else value


def pointwise(build: Builder, x: Node, choose: Choices) -> Node:
    function = choose(torch.tanh, F.gelu, torch.relu, F.silu, torch.sigmoid, torch.clone, torch.neg, F.dropout)
    return build.function(function, x, **({"training": choose(False, True)} if function is F.dropout else {}))


def scale(build: Builder, x: Node, choose: Choices) -> Node:
    return build.function(choose(operator.mul, operator.add, operator.sub), x, choose(0.75, 2, 1.0, 0.0, 1, 0))


def combine(build: Builder, x: Node, choose: Choices) -> Node:
    y = choose(*reversed(build.values))
    if build.shape(x) != build.shape(y):
        y = build.method("mean", y)
    return build.function(choose(operator.add, operator.mul, operator.sub, torch.add), x, y)


def twice(build: Builder, x: Node, choose: Choices) -> Node:
    """One node that reads another twice."""
    how = choose("add", "cat", "matmul", "linear")
    if how == "cat":
        return build.function(torch.cat, [x, x], dim=choose(0, -1))
    if how == "matmul":
        return build.function(torch.matmul, x, build.method("transpose", x, -1, -2))
    if how == "linear":
        return build.function(F.linear, x, build.ranked(x, 2))
    return build.function(operator.add, x, x)


ARITHMETIC = (divide, inverse, integers, jump, pointwise, scale, combine, twice)
