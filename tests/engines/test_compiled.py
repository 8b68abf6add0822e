"""A compiled region computes its body, for the weights, modes and inputs that it was compiled for."""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

import fxopt
from fxopt.engines import CompiledRegion
from fxopt.engines.region import NOT_CALLED, _as_they_are
from fxopt.errors import remarks

X = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def _forget_compiled() -> Iterator[None]:
    yield
    torch._dynamo.reset()


def region() -> tuple[CompiledRegion, nn.Linear, list[int]]:
    """Return a region of one linear and a sine, the linear, and a list that counts calls of compiled code."""
    linear = nn.Linear(8, 4)
    gm = torch.fx.symbolic_trace(nn.Sequential(linear, nn.Sigmoid()).eval())
    calls: list[int] = []

    def backend(graph: torch.fx.GraphModule, example: Any) -> Any:
        def compiled(*args: Any) -> Any:
            calls.append(len(args))
            return graph(*args)

        return compiled

    return CompiledRegion(gm, backend), linear, calls  # type: ignore[arg-type]


@torch.no_grad()
def test_the_compiled_code_follows_the_weights() -> None:
    one, linear, calls = region()
    for act in (
        lambda: linear.weight.add_(1),
        lambda: linear.load_state_dict(nn.Linear(8, 4).state_dict()),
        lambda: setattr(linear, "weight", nn.Parameter(torch.randn(4, 8))),
    ):
        before = len(calls)
        torch.testing.assert_close(one(X), torch.sigmoid(linear(X)))
        act()
        torch.testing.assert_close(one(X), torch.sigmoid(linear(X)))
        assert len(calls) == before + 2


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_whoever_watches_sees_the_calls_of_torch() -> None:
    one, linear, calls = region()
    y = one(X)
    y.sum().backward()
    assert linear.weight.grad is not None
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        one(X)
    assert counter.get_total_flops() == 2 * 3 * 8 * 4
    with torch.no_grad():
        torch.vmap(one)(X)
        with torch.autocast("cpu"):
            one(X)
        torch.jit.trace(one, (X,), check_trace=False)
        torch.fx.symbolic_trace(nn.Sequential(one))
        one.train()(X)
        one.eval()
        seen: list[Tensor] = []
        with linear.register_forward_hook(lambda module, args, result: seen.append(result)):
            one(X)
    assert len(seen) == 1
    assert not calls
    with torch.no_grad():
        one(X)
    assert calls


@torch.no_grad()
def test_new_numbers_in_the_memory_of_old_ones_are_seen() -> None:
    linear = nn.Linear(512, 512)
    one = CompiledRegion(torch.fx.symbolic_trace(nn.Sequential(linear, nn.Sigmoid()).eval()), "eager")
    x = torch.randn(2, 512)
    one(x)
    for _ in range(4):
        before = _as_they_are(one._tensors())
        linear.weight.data = torch.randn(512, 512)
        assert _as_they_are(one._tensors()) != before
        torch.testing.assert_close(one(x), torch.sigmoid(linear(x)))


def test_each_mode_is_compiled_once_and_frozen() -> None:
    frozen: list[bool] = []

    def backend(graph: torch.fx.GraphModule, example: Any) -> Any:
        frozen.append(torch._inductor.config.freezing)
        return graph

    gm = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(8, 4), nn.Sigmoid()).eval())
    one = CompiledRegion(gm, backend)  # type: ignore[arg-type]
    for _ in range(2):
        with torch.inference_mode():
            one(X)
        with torch.no_grad():
            one(X)
            one(X.clone().requires_grad_())
    assert frozen
    assert all(frozen)


@torch.no_grad()
def test_inputs_of_any_structure_are_taken() -> None:
    graph = torch.fx.Graph()
    pair = graph.placeholder("pair")
    a = graph.call_function(operator.getitem, (pair, 0))
    graph.output(graph.call_method("sin", (graph.call_method("cos", (a,)),)))
    one = CompiledRegion(torch.fx.GraphModule({}, graph).eval(), "eager")
    for given in ((X, 2), [X, None], (X, "name")):
        torch.testing.assert_close(one(given), X.cos().sin())
    for _ in range(3):
        one((X.clone(), 2))
    assert len(next(iter(one._set_ups.values())).calls) == 3


@torch.no_grad()
def test_an_input_that_no_engine_is_given_is_told_once_by_its_name() -> None:
    one, linear, calls = region()
    scaled = torch.fx.Graph()
    scaled.output(scaled.call_method("mul", (scaled.placeholder("x"), scaled.placeholder("factor"))))
    other = CompiledRegion(torch.fx.GraphModule({}, scaled).eval(), "eager")
    assert other.by_hand == NOT_CALLED
    with pytest.warns(fxopt.FxoptWarning, match="the input factor holds a float64; give tensors and plain"):
        other(X, np.float64(2))
    torch.testing.assert_close(other(X, np.float64(3)), X * 3)
    assert other.by_hand.startswith("the input factor holds a float64")
    other(X, 2.0)
    assert not other.by_hand
    with torch.inference_mode():
        linear.weight = nn.Parameter(torch.randn(4, 8))
        with pytest.warns(fxopt.FxoptWarning, match="a weight is a tensor of inference mode"):
            one(X)
    assert not calls


@torch.no_grad()
def test_whoever_watches_is_noted_and_not_warned() -> None:
    one, linear, _ = region()
    with torch.enable_grad():
        one(X)
    assert one.by_hand.startswith("gradients are recorded")
    with linear.register_forward_hook(lambda module, args, result: None):
        one(X)
    assert one.by_hand == "a hook of modules watches"
    with torch.device("cpu"):
        one(X)
    assert one.by_hand == "a mode, tracer or transformation of torch watches"
    one(X)
    assert not one.by_hand


@torch.no_grad()
def test_a_compiler_that_compiles_nothing_is_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    one, _, calls = region()
    monkeypatch.setattr("torch.compile", lambda body, backend: body)
    with pytest.warns(fxopt.FxoptWarning, match="torch.compile compiled nothing"):
        one(X)
    assert (
        one.by_hand
        == "torch.compile failed: EngineError: torch.compile compiled nothing, and called the model as it is"
    )
    assert not calls


@torch.no_grad()
def test_a_compiler_that_is_full_is_told() -> None:
    one = CompiledRegion(torch.fx.symbolic_trace(nn.Sequential(nn.Sigmoid(), nn.Tanh()).eval()), "eager")
    x = X[:, 0]
    with remarks() as told:
        for _ in range(torch._dynamo.config.cache_size_limit + 2):
            x = x[None]
            torch.testing.assert_close(one(x), x.sigmoid().tanh())
    assert "torch.compile failed on a region of 4 nodes" in told[0]
    assert "limit" in one.by_hand


@torch.no_grad()
def test_a_failure_of_the_compiler_is_told_and_the_region_is_computed() -> None:
    def backend(graph: torch.fx.GraphModule, example: Any) -> Any:
        raise ValueError("no such instruction")

    linear = nn.Linear(8, 4)
    gm = torch.fx.symbolic_trace(nn.Sequential(linear, nn.Sigmoid()).eval())
    one = CompiledRegion(gm, backend)  # type: ignore[arg-type]
    with pytest.warns(fxopt.FxoptWarning, match="no such instruction"):
        y = one(X)
    assert torch.equal(y, gm(X))
    assert torch.equal(one(X), y)
    assert "failed" in repr(one)


@torch.no_grad()
def test_an_error_of_the_region_itself_is_raised_as_ever() -> None:
    one, _, calls = region()
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        one(torch.randn(3, 7))
    torch.testing.assert_close(one(X), one.body(X))
    assert calls


@torch.no_grad()
def test_copies_and_pickles_compile_anew() -> None:
    gm = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(8, 4), nn.Sigmoid()).eval())
    one = CompiledRegion(gm, "eager")
    y = one(X)
    for other in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert not other._set_ups
        torch.testing.assert_close(other(X), y)
