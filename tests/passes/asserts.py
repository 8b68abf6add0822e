"""Assertions that read as the claims the passes make."""

import copy
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule
from torch.fx.passes.shape_prop import ShapeProp

import fxopt
from fxopt import Pass
from fxopt.graph.nodes import info_of
from tests.examples import outputs


class Net(nn.Module):
    """A module made of named children and a forward function that gets them: `Net(lambda m, x: m.a(x), a=...)`."""

    def __init__(self, forward: Callable[..., Any], **children: nn.Module) -> None:
        super().__init__()
        for name, child in children.items():
            self.add_module(name, child)
        self._forward = forward

    def forward(self, x: torch.Tensor) -> Any:
        return self._forward(self, x)


def captured(forward: Callable[..., Any], x: torch.Tensor, **children: nn.Module) -> GraphModule:
    return fxopt.capture(Net(forward, **children).eval(), (x,))


def traced(forward: Callable[..., Any], x: torch.Tensor, **children: nn.Module) -> GraphModule:
    """A graph with the shapes of this very `x`: quicker than `captured`, for tests that draw many models."""
    gm = torch.fx.symbolic_trace(Net(forward, **children).eval())
    ShapeProp(gm).propagate(x)
    return gm


def reasons(pass_: Pass[Any], gm: GraphModule) -> list[str]:
    """Why the pass left each site alone; it must have left all of them alone."""
    scan = pass_.scan(gm)
    assert scan.matches == ()
    return [f"{miss.reason} | {miss.remedy}" for miss in scan.misses]


def assert_left_alone(pass_: Pass[Any], gm: GraphModule, *parts: str) -> None:
    """The pass matches nowhere, changes nothing, and one of its reasons holds all `parts`.

    A call warns where known shapes might have helped.
    """
    found = reasons(pass_, gm)
    assert any(all(part in reason for part in parts) for reason in found), found
    before = fxopt.fingerprint(gm)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        pass_(gm)
    assert fxopt.fingerprint(gm) == before
    has_shapes = any(info_of(node) is not None for node in gm.graph.nodes)
    unproven = not has_shapes and any(miss.unmet.needs_shapes for miss in pass_.scan(gm).misses)
    assert ["fxopt.annotate" in str(one.message) for one in told] == [True] * unproven


def assert_close_and_reversible(pass_: Pass[Any], gm: GraphModule, x: torch.Tensor, sites: int = 1) -> None:
    """The pass rewrites `sites` sites, keeps the numbers to rounding, and reverses to the bit."""
    before, old = fxopt.fingerprint(gm), outputs(gm, (x,))
    assert len(pass_.scan(gm).matches) == sites
    pass_(gm)
    eps = torch.finfo(x.dtype).eps
    for a, b in zip(old, outputs(gm, (x,)), strict=True):
        torch.testing.assert_close(b, a, rtol=64 * eps, atol=64 * eps * max(1.0, float(a.abs().max())))
    pass_(gm, reverse=True)
    assert fxopt.fingerprint(gm) == before
    for a, b in zip(old, outputs(gm, (x,)), strict=True):
        assert torch.equal(a, b)


def assert_as_exact_as_before(
    pass_: Pass[Any], forward: Callable[..., Any], x: torch.Tensor, **layers: nn.Module
) -> None:
    """In the dtype of `x`, errors against float64 are after the pass at most 4 times those before, and 32 eps more."""
    layers = {name: layer.to(x.dtype).eval() for name, layer in layers.items()}
    wide = {name: copy.deepcopy(layer).double() for name, layer in layers.items()}
    gm = captured(forward, x, **layers)
    old = outputs(gm, (x,))
    assert pass_.scan(gm).matches
    new = outputs(pass_(gm), (x,))
    with torch.no_grad():
        exact = torch.utils._pytree.tree_leaves(Net(forward, **wide)(x.double()))
    for a, b, reference in zip(old, new, exact, strict=True):
        assert b.dtype == a.dtype
        old_error, new_error = ((y.double() - reference).abs().max() for y in (a, b))
        assert new_error <= 4 * old_error + 32 * torch.finfo(x.dtype).eps * reference.abs().max().clamp(min=1)
