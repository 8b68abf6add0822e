"""Operations that give back their input go, each by a rule of its own: the pattern, the conditions, the replacement."""

# a parameter of a rule without an annotation may be any value:
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-any-generics

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import nn
from torch.fx import GraphModule

from fxopt.core import Exactness, GraphIndex, Miss, Scan, shared_copy
from fxopt.graph.site import ALL_MET, Unmet
from fxopt.rules import RuleSet, require, rewrite
from fxopt.rules.rule_pass import RuleMatch


@rewrite(exactness=Exactness.BITWISE)
def multiply_by_one(x: torch.Tensor, c: float | int):
    """Replace `x * 1` with `x`: the product is the very number, and needs no rounding."""
    yield x * c
    require(c == 1)
    require_real(x)
    return x


@rewrite(exactness=Exactness.BITWISE)
def divide_by_one(x: torch.Tensor, c: float | int):
    """Replace `x / 1` with `x`: the quotient is the very number, and needs no rounding."""
    yield x / c
    require(c == 1)
    require_real(x)
    require(
        x.dtype.is_floating_point,
        f"{x} is {x.dtype}, and its quotient a float",  # said here, since torch 2.6 may infer integers for it
        actual=str(x.dtype),
        needed="floats",
    )
    return x


@rewrite(exactness=Exactness.BITWISE)
def add_zero(x: torch.Tensor, c: float | int):
    """Replace `x + 0` with `x`, for integers; of floats, `-0.0 + 0` is `0.0`, and only `x + -0.0` is always `x`."""
    yield x + c
    require(c == 0)
    require_real(x)
    require_signed_zero(x, math.copysign(1, c) < 0, f"{x} + {c}", "subtract 0 instead, which keeps the sign")
    return x


@rewrite(exactness=Exactness.BITWISE)
def subtract_zero(x: torch.Tensor, c: float | int):
    """Replace `x - 0` with `x`, which keeps the sign of a zero: `-0.0 - 0` is `-0.0`."""
    yield x - c
    require(c == 0)
    require_real(x)
    require_signed_zero(x, math.copysign(1, c) > 0, f"{x} - {c}", "subtract 0, which keeps the sign")
    return x


@rewrite(exactness=Exactness.BITWISE, shared_ok=True)
def transpose_twice(x, a: int, b: int, c: int, d: int):
    """Replace `x.transpose(a, b).transpose(b, a)` with `x`: the second swap of two dimensions undoes the first."""
    yield x.transpose(a, b).transpose(c, d)
    require({a % x.ndim, b % x.ndim} == {c % x.ndim, d % x.ndim})
    return x


@rewrite(exactness=Exactness.BITWISE, shared_ok=True)
def t_twice(x):
    """Replace `x.t().t()` with `x`: the second swap of two dimensions undoes the first."""
    yield x.t().t()
    return x


@rewrite(exactness=Exactness.BITWISE, shared_ok=True)
def permute_back(x, first: tuple, second: tuple):
    """Replace `x.permute(p).permute(q)` with `x`, where `q` puts every dimension back into its place."""
    yield x.permute(dims=first).permute(dims=second)
    require([first[place] for place in second] == list(range(len(first))))
    return x


@rewrite(exactness=Exactness.BITWISE)
def dropout_in_evaluation(x, p: float | int, training: bool):
    """Replace `dropout(x)` with `x`, in evaluation mode: only in training does dropout set numbers to zero."""
    yield F.dropout(x, p, training)
    require_evaluation(training)
    return x


@rewrite(exactness=Exactness.BITWISE, shared_ok=True)
def dropout_layer(
    x, layer: nn.Dropout | nn.Dropout1d | nn.Dropout2d | nn.Dropout3d | nn.AlphaDropout | nn.FeatureAlphaDropout
):
    """Replace `dropout(x)` with `x`, in evaluation mode: only in training does dropout change numbers."""
    yield layer(x)
    require_evaluation(layer.training)
    require(
        not layer.inplace or not isinstance(layer, nn.Dropout1d | nn.Dropout3d),
        "in place, it gives an input without a batch one more dimension and takes it back",
        "inplace=False",
        actual="in place",
        needed="a result of its own",
    )
    return x


@rewrite(exactness=Exactness.BITWISE, shared_ok=True)
def identity_layer(x, layer: nn.Identity):
    """Replace `identity(x)` with `x`: the layer returns its input."""
    yield layer(x)
    return x


def require_real(x: torch.Tensor) -> None:
    """Require real numbers: torch computes `(a + bi) * 1` as a product with `1 + 0i`, where infinity * 0 is NaN."""
    require(
        not x.dtype.is_complex,
        f"{x} is {x.dtype}, of which infinities and signs of zeros may change",
        actual=str(x.dtype),
        needed="a real dtype",
    )


def require_signed_zero(x: torch.Tensor, keeps_sign: bool, text: str, remedy: str) -> None:
    """Require of floats that a zero keeps its sign."""
    require(
        keeps_sign or not x.dtype.is_floating_point,
        f"{text} is 0.0 where {x} is -0.0",
        remedy,
        actual=str(x.dtype),
        needed="integers",
    )


def require_evaluation(training: bool) -> None:
    require(
        not training,
        "in training mode dropout sets numbers to zero at random",
        "model.eval()",
        actual="training",
        needed="evaluation",
    )


class RemoveIdentities(RuleSet):
    """Replace `x * 1`, `x / 1`, `x - 0`, dropout in evaluation mode, `nn.Identity` and two transpositions with `x`.

    Each of them returns the numbers that it is given, to the last bit, so whoever reads the result may read the input.
    A dropout with `inplace=True` returns the very tensor in evaluation mode, and writes nothing to it. The pass saves a
    run over memory for each product and sum, and a call for each of the others (1.00 to 1.07 times as fast where
    dropout goes). A product with an integer or float is left alone where it changes the dtype, and `x + 0` where
    `x` is a float: of `-0.0`, it makes `0.0`.

    >>> import torch, fxopt
    >>> class Model(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.drop = torch.nn.Dropout()
    ...     def forward(self, x):
    ...         return torch.relu(self.drop(x) * 1)
    >>> gm = fxopt.capture(Model().eval(), (torch.rand(2, 3),))
    >>> print(fxopt.RemoveIdentities()(gm).code.strip().splitlines()[1].strip())
    relu = torch.relu(x);  x = None
    >>> print(fxopt.RemoveIdentities()(gm, reverse=True).code.strip().splitlines()[1].strip())
    drop = self.drop(x);  x = None
    """

    label = "Remove identities"
    needs = "a call that returns its input, such as dropout or x * 1"

    rules = (
        multiply_by_one,
        divide_by_one,
        add_zero,
        subtract_zero,
        transpose_twice,
        t_twice,
        permute_back,
        dropout_in_evaluation,
        dropout_layer,
        identity_layer,
    )

    def _scan(self, index: GraphIndex) -> Scan[RuleMatch]:
        """Find the sites. Those in a row share an input once the first are gone, so they are tried on a copy."""
        found = super()._scan(index)
        roots = {match.anchor for match in found.matches}
        if not any(match.members[0].values["x"] in roots for match in found.matches):
            return found
        trial = shared_copy(index.gm)
        done = [entry.site for entry in self._apply(GraphIndex(trial), None)]
        order = {site: number for number, site in enumerate(done)}
        matches: list[RuleMatch] = []
        left: list[RuleMatch] = []
        last = -1
        for match in found.matches:
            if order.get(match.site, -1) > last:
                matches.append(match)
                last = order[match.site]
            else:
                left.append(match)
        misses = (*found.misses, *self._misses_of(left, trial))
        return replace(found, matches=tuple(matches), misses=tuple(sorted(misses, key=lambda miss: miss.anchor)))

    def _misses_of(self, left: list[RuleMatch], trial: GraphModule) -> Iterator[Miss]:
        """Return a miss for each of the matches that are no sites beside the others, which are rewritten in `trial`."""
        reasons = {miss.site: miss.unmet for miss in super()._scan(GraphIndex(trial)).misses}
        for match in left:
            before = match.members[0].values["x"]
            later = Unmet(
                f"its input {before} is a site that comes first",
                "look again when that is rewritten",
                actual="two sites in a row",
                needed="one",
            )
            yield Miss(match.anchor, reasons.get(match.site, later), met=ALL_MET)
