"""Instructions that read how memory lies, hand strides on, or are unknown."""

import operator

import torch
import torch.nn.functional as F
from torch import nn
from torch.fx import Node

from tests.fuzz.builder import Builder, Choices


def convert(build: Builder, x: Node, choose: Choices) -> Node:
    """A conversion that may give back its input, and a reader of the memory of the result."""
    how = choose("float", "to", "type_as", "reshape", "flatten", "detach", "dropout")
    if how == "to":
        made = build.method("to", x, build.dtype)
    elif how == "type_as":
        made = build.method("type_as", x, x)
    elif how == "reshape":
        made = build.method("reshape", x, *build.shape(x)[:1], -1, 1)
    elif how == "flatten":
        made = build.method("flatten", x, 0, -2)
    elif how == "dropout":
        made = build.function(F.dropout, x, 0.5, False)
    else:
        made = build.method("double" if how == "float" and build.dtype == torch.float64 else how, x)
    return read(build, made, choose)


def read(build: Builder, x: Node, choose: Choices) -> Node:
    """Something that depends on strides, or is refused for the sake of them."""
    how = choose("view", "stride", "as_strided", "unfold", "is_contiguous", "offset", "view of another dtype")
    if how == "view":
        return build.method("view", build.method("view", x, -1), -1, build.shape(x)[-1])
    if how == "stride":
        return build.function(operator.mul, x, build.method("stride", x, choose(0, 1, -1)))
    if how == "as_strided":
        width = build.shape(x)[-1]
        return build.method("as_strided", x, (2, width), (width, 1), *choose((), (0,)))
    if how == "unfold":
        return build.method("unfold", x, choose(-1, 0), 2, choose(1, 2))
    if how == "is_contiguous":
        return build.function(operator.mul, x, build.method("is_contiguous", x))
    if how == "offset":
        return build.function(operator.add, x, build.method("storage_offset", x))
    return build.method("view", build.method("view", build.method("view", x, torch.uint8), -1), build.dtype)


class ScaleInPlace(nn.Module):
    """A module of one's own that writes to its input."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mul_(0.5)


class Rows(nn.Module):
    """A module of one's own that gives a view of its input."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:2]


class Strides(nn.Module):
    """A module of one's own that reads the strides of its input."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x.stride(0)


@torch.library.custom_op("fxopt_fuzz::scale_in_place", mutates_args={"x"})
def scale_in_place(x: torch.Tensor, y: torch.Tensor) -> None:
    x.mul_(0.5).add_(y.mean())


@scale_in_place.register_fake
def _(x: torch.Tensor, y: torch.Tensor) -> None:
    return None


def opaque(build: Builder, x: Node, choose: Choices) -> Node | None:
    """An unknown call; of an operator, the schema is known."""
    how = choose("module", "packet", "overload", "container")
    if how == "module":
        return build.call(choose(ScaleInPlace, Rows, Strides)(), x, choose)
    if how == "container":
        return build.call(nn.Sequential(nn.Identity(), choose(ScaleInPlace, Rows)()), x, choose)
    packet = torch.ops.fxopt_fuzz.scale_in_place
    build.function(packet if how == "packet" else packet.default, x, choose(*reversed(build.values)))
    return None


STRIDES = (convert, read, opaque)
