"""Rules and models that the tests of rules share."""

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.fx import GraphModule

import fxopt
from fxopt import Rule, require
from fxopt.testing import Case
from tests.passes.asserts import Net, captured


@fxopt.rewrite
def fold_scale(x, linear: nn.Linear, c: float | int):
    """Replace `linear(x) * c` with a linear layer whose weight and bias are c times as large."""
    yield linear(x) * c
    require(c != 0, f"the factor is {c}", remedy="leave out what is multiplied by zero", actual=str(c), needed="not 0")
    bias = linear.bias * c if linear.bias is not None else None
    return fxopt.with_tensors(linear, weight=linear.weight * c, bias=bias)(x)


@fxopt.rewrite(exactness=fxopt.Exactness.BITWISE)
def remove_one(x: torch.Tensor, c: float | int):
    """Replace `x * 1` with `x`."""
    yield x * c
    require(c == 1, f"the factor is {c}", actual=str(c), needed="1")
    return x


@fxopt.rewrite
def use_silu(x):
    """Replace `x * sigmoid(x)` with `silu(x)`."""
    yield x * torch.sigmoid(x)
    return nn.SiLU()(x)


@fxopt.rewrite
def merge(x, *linears: nn.Linear, most: int = 8):
    """Replace linears that read one input with parts of one product."""
    yield [linear(x) for linear in linears]
    require(len(linears) <= most, f"there are {len(linears)} of them")
    require(all(linear.bias is not None for linear in linears), "not all have a bias")
    sizes = [linear.out_features for linear in linears]
    with torch.random.fork_rng():
        merged = nn.Linear(linears[0].in_features, sum(sizes))
    merged.weight = nn.Parameter(torch.cat([linear.weight for linear in linears]))
    merged.bias = nn.Parameter(torch.cat([linear.bias for linear in linears]))
    return merged(x).split(sizes, -1)


@fxopt.rewrite
def join(x, first: nn.Linear, second: nn.Linear):
    """Replace `second(first(x))` with one linear layer."""
    yield second(first(x))
    require(second.out_features <= first.out_features, "the product would be larger than the two")
    weight = second.weight @ first.weight
    bias = second.bias if first.bias is None else F.linear(first.bias, second.weight, second.bias)
    joined = nn.Linear(first.in_features, second.out_features, bias=bias is not None)
    joined.weight = nn.Parameter(weight)
    if bias is not None:
        joined.bias = nn.Parameter(bias)
    return joined(x)


@fxopt.rewrite(exactness=fxopt.Exactness.BITWISE)
def functional_norm(x, norm: nn.LayerNorm):
    """Replace a layer norm module with the function."""
    yield norm(x)
    return F.layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)


@fxopt.rewrite(exactness=fxopt.Exactness.BITWISE)
def remove_transposes(x, a: int, b: int):
    """Replace `x.transpose(a, b).transpose(a, b)` with `x`."""
    yield x.transpose(a, b).transpose(a, b)
    return x


@fxopt.rewrite(exactness=fxopt.Exactness.BITWISE)
def relu_once(x):
    """Replace `relu(relu(x))` with `relu(x)`."""
    h = torch.relu(x)
    yield torch.relu(h)
    return h


@fxopt.rewrite
def collect_factors(x, a: float | int, b: float | int):
    """Replace `x * a * b` with `x * (a * b)`."""
    yield x * a * b
    return x * (a * b)


RULES = [fold_scale, remove_one, use_silu, merge, join, functional_norm, remove_transposes, relu_once, collect_factors]

X = torch.linspace(-1, 1, 12).view(3, 4)


def linear(bias: bool = True, size: int = 4) -> nn.Linear:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return nn.Linear(4, size, bias=bias)


def tied() -> dict[str, nn.Module]:
    a, b = linear(), linear()
    b.weight = a.weight
    return {"a": a, "b": b}


FORWARDS: list[tuple[Callable[..., Any], dict[str, nn.Module]]] = [
    (lambda m, x: 2.0 * m.a(x) + torch.mul(other=3, input=m.b(input=x)), {"a": linear(), "b": linear(False)}),
    (lambda m, x: m.a(x) * 2.0 + m.a(x), {"a": linear()}),
    (lambda m, x: m.a(x) * 2.0 + m.b(x), tied()),
    (lambda m, x: m.b(m.a(x)) + m.c(m.a.weight).sum(), {"a": linear(size=6), "b": nn.Linear(6, 2), "c": linear()}),
    (lambda m, x: m.c(m.b(m.a(x))), {"a": linear(), "b": linear(), "c": linear(False)}),
    (lambda m, x: (m.a(x) * 2 * 3.0 * 4).mul(5) * 1.0 * 1, {"a": linear()}),
    (lambda m, x: torch.relu(F.relu(m.r(x.relu().relu()))) + m.r(x), {"r": nn.ReLU()}),
    (lambda m, x: x.transpose(0, 1).transpose(-1, 0).swapaxes(0, 1).transpose(0, 1).transpose(0, 1), {}),
    (lambda m, x: m.n(x) * m.s(m.n(x)) + F.sigmoid(x) * x, {"n": nn.LayerNorm(4), "s": nn.Sigmoid()}),
    (lambda m, x: in_place(m.a(x) * 1, m.b(x), x * 1, x), {"a": linear(), "b": linear()}),
    (lambda m, x: (m.a(x), m.b(x), m.alias(x), m.c(x) * 2), {**dict.fromkeys(("a", "alias"), linear()),
                                                             "b": linear(size=2), "c": linear()}),
    (lambda m, x: m.n(x) + m.n2(input=x) * 1, {"n": nn.LayerNorm(4), "n2": nn.LayerNorm(4, elementwise_affine=False)}),
    (lambda m, x: (m.dead(x), m.a(x) * 2.0)[1], {"a": linear(), "dead": linear()}),
]  # fmt: skip


def in_place(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    c.add_(1)
    return torch.relu(a.mul_(2) + b) + c + x


@functools.cache
def cases() -> list[Case]:
    return [Case.of(f"net {i}", Net(f, **children).eval(), (X,)) for i, (f, children) in enumerate(FORWARDS)]


def left_alone(rule: Rule, forward: Callable[..., Any], *parts: str, **children: nn.Module) -> fxopt.Miss:
    """The nearest miss of a rule that matches nowhere and whose reason has all `parts`."""
    scan = rule.scan(captured(forward, X, **children))
    assert scan.matches == ()
    miss = scan.near_misses[0]
    assert all(part in f"{miss.reason} | {miss.remedy} | {miss.actual} | {miss.needed}" for part in parts), miss
    return miss


def replaced(pattern: Callable[[Any], Any]) -> Rule:
    """A rule that replaces `pattern` with a cosine."""

    def rule(x):
        yield pattern(x)
        return torch.cos(x)

    return fxopt.rewrite(rule)


def one_site() -> GraphModule:
    return captured(lambda m, x: m.a(x) * 2.0, X, a=linear())
