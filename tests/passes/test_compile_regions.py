"""Regions of a graph become one call of a compiler: the laws, each reason to leave a region alone, and the module."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import fxopt
from fxopt.core import shared_copy
from fxopt.engines import RUNTIMES, CompiledRegion
from fxopt.engines import compiled as compiled_file
from fxopt.engines.runtimes import Runtime
from fxopt.errors import ArgumentError
from fxopt.evidence.running import copied
from fxopt.graph.nodes import info_of
from fxopt.testing import LAWS, Case, Law, check, title
from fxopt.tracing.structure import tensors_of
from tests.engines.caches import Cache, Step, caches
from tests.examples import EXAMPLES, Example
from tests.passes.asserts import assert_left_alone
from tests.quick import one_of_four

PASS = fxopt.CompileRegions(backend="eager")
X = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def _forget_compiled() -> Iterator[None]:
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize(
    ("law", "example"), one_of_four(LAWS, EXAMPLES), ids=lambda value: title(value) if value in LAWS else value.name
)
def test_it_obeys_every_law(law: Law, example: Example) -> None:
    case = Case.of(example.name, example.model(), *(example.inputs(seed) for seed in (1, 2, 3)))
    assert PASS.scan(case.captured).matches
    check(law, PASS, case)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = F.gelu(self.up(x))
        return x + self.down(hidden), hidden


class Blocks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        total = torch.zeros(())
        for block in self.blocks:
            x, hidden = block(x)
            total = total + hidden.sum()
        return self.head(x), total


def test_each_module_that_matches_is_a_site_with_its_results() -> None:
    model = Blocks().eval()
    gm = fxopt.capture(model, (X,))
    expected, state = gm(X), list(gm.state_dict())
    pass_ = fxopt.CompileRegions("blocks.*", backend="eager")
    first, second = pass_.scan(gm).matches
    assert (first.path, [one.name for one in first.inputs], len(first.outputs)) == ("blocks.0", ["x"], 2)
    pass_(gm)
    assert [str(node.target) for node in gm.graph.find_nodes(op="call_module", target="head")] == ["head"]
    regions = [module for module in gm.modules() if isinstance(module, CompiledRegion)]
    assert len(regions) == 2
    with torch.no_grad():
        torch.testing.assert_close(gm(X), expected)
    assert {id(one) for one in gm.parameters()} == {id(one) for one in model.parameters()}
    pass_.turn_off(gm, second.site)
    assert pass_.sites_on(gm) == (first.site,)
    pass_(gm, reverse=True)
    assert list(gm.state_dict()) == state


def test_a_module_without_modules_of_its_own_is_a_region() -> None:
    class Inner(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.sin() + 1

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.head = Inner(), nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.inner(x))

    gm = fxopt.capture(Outer().eval(), (X,))
    before, expected = fxopt.fingerprint(gm), gm(X)
    pass_ = fxopt.CompileRegions("inner", backend="eager")
    pass_(gm)
    assert [str(node.target) for node in gm.graph.find_nodes(op="call_module", target="inner_compiled")]
    with torch.no_grad():
        torch.testing.assert_close(gm(X), expected)
    pass_(gm, reverse=True)
    assert fxopt.fingerprint(gm) == before


def test_a_layer_that_others_call_too_stays_where_it_is() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)
            self.block = nn.Sequential(self.layer, nn.ReLU())

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.block(x) + self.layer(x)
            return y

    gm = fxopt.capture(Twice().eval(), (X,))
    before, expected = fxopt.fingerprint(gm), gm(X)
    pass_ = fxopt.CompileRegions("block", backend="eager")
    pass_(gm)
    with torch.no_grad():
        torch.testing.assert_close(gm(X), expected)
    pass_(gm, reverse=True)
    assert fxopt.fingerprint(gm) == before


def test_a_region_of_other_passes_is_compiled_with_their_work() -> None:
    gm = fxopt.capture(Blocks().eval(), (X,))
    expected = gm(X)
    before = fxopt.fingerprint(gm)
    fxopt.PackLinears()(gm)
    PASS(gm)
    with torch.no_grad():
        torch.testing.assert_close(gm(X), expected)
    fxopt.PackLinears()(gm, reverse=True)
    assert PASS.sites_on(gm)
    PASS(gm, reverse=True)
    assert fxopt.fingerprint(gm) == before


@pytest.mark.parametrize("kind", caches())
@torch.no_grad()
def test_tensors_are_taken_out_of_a_cache_in_front_of_the_region(kind: str) -> None:
    x, past = torch.randn(1, 8), caches()[kind]
    gm = fxopt.capture(Step().eval(), (x, past))
    before, expected = fxopt.fingerprint(gm), gm(x, past)
    (match,) = PASS.scan(gm).matches
    assert all(info_of(node) is not None for node in match.inputs)
    PASS(gm)
    (region,) = (one for one in gm.modules() if isinstance(one, CompiledRegion))
    given = copied(past)
    for _ in range(2):
        found = gm(x, given)
        assert not region.by_hand
        torch.testing.assert_close(tensors_of(found), tensors_of(expected))
        assert all(map(torch.equal, tensors_of(given), tensors_of(past)))  # as the model leaves it
    if kind != "an object":
        assert found[1][0][1] is tensors_of(given)[1]
    torch.testing.assert_close(tensors_of(pickle.loads(pickle.dumps(gm))(x, given)), tensors_of(expected))
    PASS(gm, reverse=True)
    assert fxopt.fingerprint(gm) == before


@pytest.mark.parametrize(
    ("pass_", "numbers"),
    [(fxopt.CastLinearsToBFloat16(), "bfloat16"), (fxopt.QuantizeLinears(), "integers of 8 bits")],
    ids=["bfloat16", "int8"],
)
@pytest.mark.parametrize("engine", [PASS, fxopt.DelegateRegions("onnxruntime")], ids=["compiled", "delegated"])
def test_layers_of_narrow_numbers_are_no_part_of_a_region_in_an_engine_but_of_a_plan(
    pass_: fxopt.Pass[Any], numbers: str, engine: fxopt.Pass[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RUNTIMES, "onnxruntime", Runtime("Engine", (), "", lambda program, threads: None))
    gm = fxopt.capture(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)).eval(), (X,))
    if not pass_.scan(gm).matches:
        pytest.skip(str(pass_.scan(gm).misses[0]))
    assert engine.scan(gm).matches
    pass_(gm)
    assert_left_alone(engine, gm, f"0 multiplies {numbers}", "in float32", f"turn {pass_.name} off")
    assert fxopt.PlanRegions().scan(gm).matches


def reason_of(model: nn.Module, *inputs: Tensor, pass_: fxopt.CompileRegions = PASS) -> str:
    gm = fxopt.capture(model, inputs)
    scan = pass_.scan(gm)
    assert not scan.matches
    return str(scan.misses[0])


class Calls(nn.Module):
    def __init__(self, function: Any, *modules: nn.Module) -> None:
        super().__init__()
        self.modules_, self.function = nn.ModuleList(modules), function

    def forward(self, x: Tensor) -> Any:
        return self.function(x, *self.modules_)


def test_dropout_in_training_mode_is_left_alone() -> None:
    model = Calls(lambda x, a, b: b(a(x)), nn.Linear(8, 8), nn.Dropout()).train()
    assert "is in training mode" in reason_of(model, X)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.dropout(x.sin(), 0.5, training=True) + 1,
        lambda x: torch.rand_like(x) + x,
        lambda x: F.gumbel_softmax(x) + 1,
        lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.5) + 1,
    ],
    ids=["dropout", "rand_like", "gumbel", "attention"],
)
def test_random_numbers_are_left_alone(function: Any) -> None:
    assert "draws random numbers" in reason_of(Calls(function).eval(), X)


def test_a_module_that_draws_is_left_alone() -> None:
    model = Calls(lambda x, pool: pool(x) + 1, nn.FractionalMaxPool2d(2, output_size=2)).eval()
    assert "draws random numbers" in reason_of(model, torch.rand(1, 2, 8, 8))


def test_a_write_to_an_input_is_left_alone() -> None:
    assert "writes in place to x" in reason_of(Calls(lambda x: x.add_(1) * 2).eval(), X.clone())


def test_a_write_to_memory_of_its_own_is_compiled() -> None:
    gm = fxopt.capture(Calls(lambda x: F.relu_(x.sin()) * 2).eval(), (X,))
    expected = gm(X)
    assert PASS(gm).get_submodule("compiled")
    with torch.no_grad():
        torch.testing.assert_close(gm(X), expected)


def test_a_call_that_may_write_is_left_alone() -> None:
    class Own(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.sin()

    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_method("cos", (graph.call_module("own", (x,)),)))
    gm = fxopt.annotate(torch.fx.GraphModule({"own": Own().eval()}, graph).eval(), X)
    (miss,) = PASS.scan(gm).misses
    assert "may write to what it is given" in miss.reason


def test_rounding_before_a_jump_is_left_alone() -> None:
    assert "on the other side of a bound" in reason_of(Calls(lambda x: (x / 41).floor() + 1).eval(), X)


def test_a_region_that_is_left_and_entered_again_is_left_alone() -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, x: Tensor) -> Tensor:
            y = self.inner(x)
            return self.inner(y.exp())

    class Inner(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.sin() + 1

    found = reason_of(Outer().eval(), X, pass_=fxopt.CompileRegions("inner", backend="eager"))
    assert "exp reads a result of the module inner, which needs exp as well" in found, found


@pytest.mark.parametrize(("named", "found"), [("no-such-compiler -O2", ""), (" ", ""), ("g++ -std=c++17", "g++")])
def test_the_compiler_is_the_one_that_inductor_takes(monkeypatch: pytest.MonkeyPatch, named: str, found: str) -> None:
    monkeypatch.setenv("CXX", named)
    monkeypatch.setattr(shutil, "which", lambda name: name if name == "g++" else None)
    assert compiled_file.compiler_of("inductor") == found


def test_without_a_compiler_the_reason_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    found = reason_of(Calls(lambda x: x.sin() + 1).eval(), X, pass_=fxopt.CompileRegions())
    assert "no C++ compiler" in found
    assert "install g++" in found


@pytest.mark.parametrize("arguments", [{"module": 3}, {"backend": None}])
def test_wrong_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match="takes a text"):
        fxopt.CompileRegions(**arguments)


@pytest.mark.slow
@torch.no_grad()
def test_inductor_computes_the_same_with_frozen_weights() -> None:
    gm = fxopt.capture(Blocks().eval(), (X,))
    expected = gm(X)
    fxopt.CompileRegions()(gm)
    torch.testing.assert_close(gm(X), expected, rtol=1e-5, atol=1e-5)
    (one,) = (module for module in gm.modules() if isinstance(module, CompiledRegion))
    assert one._set_ups, "it was compiled"
    linear = gm.get_submodule("compiled.body.head")
    linear.bias.data.add_(1)  # type: ignore[union-attr, operator]
    fxopt.CompileRegions()(fxopt.CompileRegions()(gm, reverse=True))
    torch.testing.assert_close(gm(X)[0], expected[0] + 1, rtol=1e-5, atol=1e-5)
    linear = gm.get_submodule("compiled.body.head")
    linear.bias.add_(1)  # type: ignore[union-attr, operator]
    torch.testing.assert_close(gm(X)[0], expected[0] + 2, rtol=1e-5, atol=1e-5)
    assert compiled_file.compiler_of("inductor")


@pytest.mark.slow
@torch.no_grad()
def test_inductor_takes_a_cache_that_grows_with_each_step() -> None:
    x, past = torch.randn(1, 8), caches()["an object"]
    gm = fxopt.capture(Step().eval(), (x, past))
    original, kept = shared_copy(gm), Cache(past.keys, past.values)
    fxopt.CompileRegions()(gm)
    (region,) = (one for one in gm.modules() if isinstance(one, CompiledRegion))
    for _ in range(12):  # Dynamo holds 8 kinds of inputs
        (found, past), (expected, kept) = gm(x, past), original(x, kept)
        assert not region.by_hand
        torch.testing.assert_close((found, past.keys), (expected, kept.keys), rtol=1e-5, atol=1e-5)
        past.values = kept.values = torch.cat([kept.values, x])
    assert len(past.keys) == 14
