"""Instructions that write in place, look at memory in another way, or leave things unread."""

import operator

import torch
from torch.fx import Node

from tests.fuzz.builder import Builder, Choices
from tests.fuzz.layers import new_linear


def write(build: Builder, x: Node, choose: Choices) -> Node | None:
    """Change a value in place, or a part of it, or the memory that it is a view of; the result is read or not."""
    part = _part(build, x, choose)
    how = choose("add_", "+=", "*=", "copy_", "setitem", "relu_", "zero_", "masked_fill_", "function", "out",
                 "__imul__")  # fmt: skip
    if how == "+=":
        made = build.function(operator.iadd, part, 0.5)
    elif how == "*=":
        made = build.function(operator.imul, part, 0.5)
    elif how == "setitem":
        build.function(operator.setitem, part, (slice(0, 1),), 0.25)
        return None
    elif how == "copy_":
        made = build.method("copy_", part, build.method("mean", choose(*reversed(build.values))))
    elif how == "masked_fill_":
        made = build.method(how, part, build.function(torch.full_like, part, True, dtype=torch.bool), 0.5)
    elif how == "function":
        made = build.function(torch.relu_, part)
    elif how == "out":
        made = build.function(torch.tanh, part, out=part)
    else:
        made = build.method(how, part, *([0.5] if how in ("add_", "__imul__") else []))
    return choose(made, None)


def _part(build: Builder, x: Node, choose: Choices) -> Node:
    how = choose("all", "own", "rows", "columns", "flat", "transposed", "detached")
    if how == "own":
        return build.function(operator.mul, x, 0.75)
    if how == "rows":
        return build.function(operator.getitem, x, slice(0, 1))
    if how == "columns":
        return build.function(operator.getitem, x, (..., slice(0, 2)))
    if how == "flat":
        return build.method("view", x, -1)
    if how == "transposed":
        return build.method("transpose", x, 0, 1)
    if how == "detached":
        return build.method("detach", x)
    return x


def view(build: Builder, x: Node, choose: Choices) -> Node:
    """Another view of the same memory, or a copy in another order."""
    how = choose("flat", "transpose", "slice", "chunk", "split", "unbind", "reshape", "keyword", "expand", "strided",
                 "unsqueeze", "first", "channels last")  # fmt: skip
    width = build.shape(x)[-1]
    if how == "flat":
        return build.method("view", build.method("view", x, -1), -1, width)
    if how == "transpose":
        return build.method("transpose", x, 1, -1)
    if how == "slice":
        return build.function(operator.getitem, x, (..., slice(0, 2)))
    if how in ("chunk", "split", "unbind"):
        parts = build.method(how, x, *{"chunk": (2, -1), "split": (2, -1), "unbind": (-1,)}[how])
        return build.function(operator.getitem, parts, 0)
    if how == "reshape":
        return build.function(torch.reshape, x, (-1, width))
    if how == "keyword":
        return build.method("sum", x, dim=choose(-1, 1), keepdim=True)
    if how == "expand":
        return build.method("expand", build.function(operator.getitem, x, slice(0, 1)), 2, *build.shape(x)[1:])
    if how == "strided":
        return build.function(operator.getitem, x, (..., slice(None, None, 2)))
    if how == "unsqueeze":
        return build.method("unsqueeze", x, 1)
    if how == "first":
        return build.function(operator.getitem, x, (slice(None), 0))
    return build.method("contiguous", x, memory_format=torch.channels_last)


def cat(build: Builder, x: Node, choose: Choices) -> Node:
    y = build.ranked(choose(*reversed(build.values)), len(build.shape(x)))
    return build.function(torch.cat, [x, y], dim=choose(-1, 0, 1))


def dead(build: Builder, x: Node, choose: Choices) -> None:
    """Something that is computed and not read, or a module that is never called."""
    if choose(True, False):
        build.function(operator.add, x, 1.0)
    else:
        build.add(new_linear(build, 4, 4), choose("", "block"))


def ask(build: Builder, x: Node, choose: Choices) -> Node | None:
    """Ask for the shape, dtype or device of a value; the answer scales or shapes another value, or is checked."""
    how = choose("ndim", "size", "shape", "dtype", "numel", "like", "dim", "device", "new", "is_contiguous", "stride")
    y = choose(*reversed(build.values))
    if how == "ndim":
        answer = build.function(getattr, x, "ndim")
        build.function(torch._assert, build.function(operator.eq, answer, len(build.shape(x))), "dimensions")
        return None
    if how == "dtype":
        return build.method("to", y, build.function(getattr, x, "dtype"))
    if how == "device":
        return build.method("to", y, device=build.function(getattr, x, "device"))
    if how == "like":
        return build.method(choose("view_as", "type_as", "expand_as", "to"), y, x)
    if how == "new":
        return build.function(operator.add, y, build.method("new_ones", x, 1))
    if how == "shape":
        answer = build.function(operator.getitem, build.function(getattr, x, "shape"), choose(0, -1))
    else:
        answer = build.method(how, x, *((choose(0, -1),) if how in ("size", "stride") else ()))
    return build.function(operator.mul, y, answer)


def index(build: Builder, x: Node, choose: Choices) -> Node:
    """Numbers at places of a value: rows by a list, one number or row by a tuple, and by a mask or whole numbers."""
    mask = choose(*[None] * 6, "mask")
    place = choose([0, 1], (0, 1), [0], (0,), [1, 0], ([0, 1], [1, 0]), (..., [0, 1]))
    if mask is not None:
        place = build.function(torch.ones_like, x, dtype=torch.bool)
    return build.function(operator.mul, x, build.method("mean", build.function(operator.getitem, x, place)))


MEMORY = (write, view, cat, dead, ask, index)
