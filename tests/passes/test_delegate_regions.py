"""Regions of a graph become one call of ONNX Runtime or OpenVINO: the laws, and each reason of its own to miss."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

import fxopt
from fxopt.engines import SessionRegion, runtimes
from fxopt.engines.runtimes import Runtime
from fxopt.errors import ArgumentError
from fxopt.evidence.running import copied
from fxopt.testing import LAWS, Case, Law, check, title
from fxopt.tracing.structure import tensors_of
from tests.engines.caches import Step, caches
from tests.examples import EXAMPLES, Example
from tests.quick import one_of_four

PASS = fxopt.DelegateRegions("onnxruntime")
X = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))


def in_torch(program: ExportedProgram, threads: int) -> Callable[..., tuple[Tensor, ...]]:
    model = program.module()
    return lambda *tensors: tuple(map(Tensor.clone, model(*tensors)))


@pytest.fixture(autouse=True)
def _an_engine_in_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(runtimes.RUNTIMES, "onnxruntime", Runtime("Engine", (), "", in_torch))


@pytest.mark.parametrize(
    ("law", "example"), one_of_four(LAWS, EXAMPLES[:4]), ids=lambda value: title(value) if value in LAWS else value.name
)
def test_it_obeys_every_law(law: Law, example: Example) -> None:
    case = Case.of(example.name, example.model(), *(example.inputs(seed) for seed in (1, 2, 3)))
    check(law, PASS, case)


class Calls(nn.Module):
    def __init__(self, function: Callable[..., object], *modules: nn.Module) -> None:
        super().__init__()
        self.modules_, self.function = nn.ModuleList(modules), function

    def forward(self, x: Tensor) -> object:
        return self.function(x, *self.modules_)


def test_a_region_is_one_call_of_the_engine_and_comes_back() -> None:
    gm = fxopt.capture(Calls(lambda x, one, two: two(one(x).relu()), nn.Linear(8, 4), nn.Linear(4, 2)).eval(), (X,))
    before, expected = fxopt.fingerprint(gm), gm(X)
    assert "Engine computes them at the first call" in PASS.explain(PASS.scan(gm).matches[0])
    PASS(gm)
    (region,) = (one for one in gm.modules() if isinstance(one, SessionRegion))
    with torch.inference_mode():
        torch.testing.assert_close(gm(X), expected)
    assert region._set_ups, "the engine computed it"
    PASS(gm, reverse=True)
    assert fxopt.fingerprint(gm) == before


@pytest.mark.parametrize("kind", caches())
def test_tensors_are_taken_out_of_a_cache_in_front_of_the_region(kind: str) -> None:
    x, past = torch.randn(1, 8), caches()[kind]
    gm = fxopt.capture(Step().eval(), (x, past))
    before, expected = fxopt.fingerprint(gm), gm(x, past)
    PASS(gm)
    (region,) = (one for one in gm.modules() if isinstance(one, SessionRegion))
    given = copied(past)
    with torch.inference_mode():
        found = gm(x, given)
    assert not region.by_hand
    torch.testing.assert_close(tensors_of(found), tensors_of(expected))
    assert all(map(torch.equal, tensors_of(given), tensors_of(past)))
    PASS(gm, reverse=True)
    assert fxopt.fingerprint(gm) == before


@torch.no_grad()
def test_a_write_through_data_is_taken_when_the_pass_is_switched_off_and_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_copies(program: ExportedProgram, threads: int) -> Callable[..., tuple[Tensor, ...]]:
        return in_torch(copy.deepcopy(program), threads)

    monkeypatch.setitem(runtimes.RUNTIMES, "onnxruntime", Runtime("Engine", (), "", with_copies))
    linear = nn.Linear(8, 4)
    gm = fxopt.capture(Calls(lambda x, one: one(x).relu(), linear).eval(), (X,))
    (match,) = PASS.scan(gm).matches
    assert "except through `.data`: after one, switch it off and on" in PASS.explain(match)
    old = PASS(gm)(X)
    linear.weight.data.mul_(2)
    torch.testing.assert_close(gm(X), old)
    PASS.turn_off(gm, match.site)
    PASS.turn_on(gm, match.site)
    torch.testing.assert_close(gm(X), linear(X).relu())


@pytest.mark.parametrize(
    ("function", "x", "reason"),
    [
        (lambda x: (x.sin().cos(), x.view(8, 3)), X, "the result view may share memory with"),
        (lambda x: (y := x.sin(), y.t()), X, "the result t may share memory with sin"),
        (lambda x: x.double().sin(), X, "double is float64 batch x samples, and an engine gets float32"),
        (lambda x: x.sin().cos(), X.bfloat16(), "x is bfloat16 batch"),
        (lambda x: x.add_(1).sin(), X.clone(), "writes in place to x"),
        (lambda x: torch.rand_like(x) + 1, X, "draws random numbers"),
    ],
    ids=["input", "output", "inside", "given", "write", "random"],
)
def test_a_region_that_an_engine_would_compute_otherwise_is_left_alone(
    function: Callable[..., object], x: Tensor, reason: str
) -> None:
    scan = PASS.scan(fxopt.capture(Calls(function).eval(), (x,)))
    assert not scan.matches
    assert reason in str(scan.misses[0])


def test_weights_of_another_type_are_left_alone() -> None:
    model = Calls(lambda x, one: one(x.double()).float(), nn.Linear(8, 4).double()).eval()
    assert "float64" in str(PASS.scan(fxopt.capture(model, (X,))).misses[0])


def test_without_types_nothing_is_certain() -> None:
    gm = torch.fx.symbolic_trace(Calls(lambda x: x.sin().cos()).eval())
    scan = PASS.scan(gm)
    assert not scan.matches


def test_without_the_package_the_reason_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = Runtime("Engine", ("no_such_package",), "onnx", in_torch)
    monkeypatch.setitem(runtimes.RUNTIMES, "onnxruntime", absent)
    (miss,) = PASS.scan(fxopt.capture(Calls(lambda x: x.sin().cos()).eval(), (X,))).misses
    assert miss.reason == "Engine is not installed: it needs no_such_package"
    assert miss.remedy == "pip install 'fxopt[onnx]'"


def test_an_engine_that_there_is_not_is_refused() -> None:
    with pytest.raises(ArgumentError, match="takes one of onnxruntime, openvino; this is 'tensorrt'"):
        fxopt.DelegateRegions("tensorrt")


def test_openvino_gets_no_arithmetic_of_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(runtimes.RUNTIMES, "openvino", Runtime("OpenVINO", (), "", in_torch))
    ids, pass_ = torch.randint(9, (3, 8)), fxopt.DelegateRegions("openvino")
    table = nn.Embedding(9, 4)
    (miss,) = pass_.scan(fxopt.capture(Calls(lambda x, table: table(x // 2), table).eval(), (ids,))).misses
    assert "floordiv computes integers" in miss.reason
    assert pass_.scan(fxopt.capture(Calls(lambda x, table: table(x[:, 1:]).relu(), table).eval(), (ids,))).matches
