"""What one would pick instead: a row for each engine, with set-up, error and latency, or with the reason."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fxopt
from fxopt.engines import runtimes, whole
from fxopt.engines.flat import Flat, tensors_among
from fxopt.engines.whole import ENGINES, Engine
from fxopt.errors import ArgumentError
from fxopt.evidence import engines, latency
from fxopt.evidence.engines import EngineRow, EnginesReport, compare_engines
from fxopt.tracing.structure import tensors_of
from tests.engines.caches import Step, caches

ROOT = Path(__file__).parents[2]
WHEELS = {"ONNX Runtime": ROOT / ".cache/onnx", "OpenVINO": ROOT / ".cache/openvino"}
RUN = """
import sys, torch
from torch import nn
import fxopt
from fxopt.evidence import latency
from fxopt.evidence.engines import compare_engines
latency.SAMPLE_SECONDS = 0.0001

class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 4)
    def forward(self, pair, *, factor, unused=None):
        return {"sum": pair["a"] + pair["b"], "out": torch.relu(self.linear(pair["a"])) * factor, "shape": 3}

pair, factor = {"a": torch.rand(3, 8), "b": torch.rand(3, 8)}, torch.rand(4)
gm = fxopt.capture(Pair().eval(), (pair,), {"factor": factor})
before = fxopt.fingerprint(gm), torch.get_num_threads()
[row] = compare_engines(gm, (pair,), {"factor": factor}, engines=[sys.argv[1]], rounds=6).rows
assert not row.problem, row.problem
assert row.numerics.fits and len(row.numerics.outputs) == 2, row.numerics
assert row.max_abs < 1e-5 and row.setup_seconds > 0 and len(row.latency.rounds) == 6
assert before == (fxopt.fingerprint(gm), torch.get_num_threads())

class Sorted(nn.Module):
    def forward(self, x):
        return torch.linalg.svdvals(x)

x = torch.rand(4, 4)
[row] = compare_engines(fxopt.capture(Sorted(), (x,)), (x,), engines=[sys.argv[1]], rounds=6).rows
print(row.problem or "measured")
"""


def net() -> fxopt.core.GraphModule:
    torch.manual_seed(0)
    return fxopt.capture(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)).eval(), (X,))


X = torch.rand(3, 8)
Build = Callable[[Flat, tuple[Tensor, ...]], Callable[..., tuple[Tensor, ...]]]


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts engines of its own in the place of those that there are, by name."""
    monkeypatch.setattr(latency, "SAMPLE_SECONDS", 0.0001)

    def given(**builds: Build) -> None:
        monkeypatch.setattr(engines, "ENGINES", tuple(Engine(name, (), "", one) for name, one in builds.items()))

    return given


def rows() -> dict[str, EngineRow]:
    return {one.name: one for one in compare_engines(net(), (X,), rounds=6).rows}


def test_an_engine_is_set_up_judged_and_measured_and_the_graph_is_as_it_was(given: Callable[..., None]) -> None:
    given(itself=lambda flat, tensors: flat, rounded=lambda flat, tensors: lambda x: tensors_among(flat(x)[0] + 1e-7))
    gm = net()
    before, threads = fxopt.fingerprint(gm), torch.get_num_threads()
    report = compare_engines(gm, (X,), engines=["itself", "rounded"], rounds=6)
    itself, rounded = report.rows
    assert itself.numerics is not None
    assert itself.numerics.identical
    assert rounded.max_abs == pytest.approx(1e-7, rel=0.2)
    assert all(one.latency is not None and len(one.latency.rounds) == 6 for one in report.rows)
    assert all(one.setup_seconds is not None for one in report.rows)
    assert list(report.frame["model in"]) == ["itself", "rounded"]
    assert (fxopt.fingerprint(gm), torch.get_num_threads()) == (before, threads)


def test_whatever_an_engine_cannot_do_is_a_row_with_the_reason(given: Callable[..., None]) -> None:
    def refuses(flat: Flat, tensors: tuple[Tensor, ...]) -> Any:
        raise NotImplementedError("no form of fancy::sort\nmore of it")

    def has_a_cause(flat: Flat, tensors: tuple[Tensor, ...]) -> Any:
        try:
            raise KeyError("aten.fancy")
        except KeyError as error:
            raise RuntimeError("step 3 of 3 failed") from error

    def sums_up(flat: Flat, tensors: tuple[Tensor, ...]) -> Any:
        raise RuntimeError("Check 'false' failed\n-- details\n\nSummary:\n-- No rule for: aten.fancy\n-- No type")

    def fails_later(flat: Flat, tensors: tuple[Tensor, ...]) -> Any:
        calls = iter(range(1))
        return lambda x: (next(calls), flat(x))[1]

    given(refuses=refuses, caused=has_a_cause, sums=sums_up, fails=fails_later)
    found = rows()
    assert found["caused"].verdict == "KeyError: 'aten.fancy'"
    assert found["sums"].verdict == "RuntimeError: No rule for: aten.fancy; No type"
    assert found["refuses"].verdict == "NotImplementedError: no form of fancy::sort"
    assert "the new graph fails on input 1" in found["fails"].problem
    assert found["fails"].latency is None


def test_an_engine_that_is_not_installed_is_a_row_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = dataclasses.replace(ENGINES[1], packages=("no_such_package", "torch"))
    monkeypatch.setattr(engines, "ENGINES", (absent,))
    assert rows()["ONNX Runtime"].problem == "it needs no_such_package: pip install 'fxopt[onnx]'"
    monkeypatch.setattr(engines, "ENGINES", ENGINES[:1])
    monkeypatch.setattr(whole, "compiler_of", lambda backend: "")
    assert rows()["torch.compile"].problem == "it needs a C++ compiler, such as g++"


def test_a_name_that_no_engine_has_is_refused() -> None:
    with pytest.raises(
        ArgumentError, match=r"no engine 'tensorrt'; give some of torch.compile, ONNX Runtime, OpenVINO"
    ):
        compare_engines(net(), (X,), engines=["tensorrt"])


def test_an_input_whose_tensors_torch_does_not_see_is_a_row_with_the_reason(given: Callable[..., None]) -> None:
    class Box:
        __slots__ = ("x",)

        def __init__(self, x: Tensor) -> None:
            self.x = x

    given(itself=lambda flat, tensors: flat)
    [row] = compare_engines(net(), (Box(X),), engines=["itself"], rounds=6).rows
    assert row.problem == (
        "the input input holds a Box, whose tensors torch does not see; "
        "hold them in tuples, lists, dicts or objects with attributes"
    )
    assert row.verdict == row.problem
    assert row.latency is None


@pytest.mark.parametrize("kind", caches())
def test_an_engine_gets_the_tensors_of_a_cache_and_gives_those_of_the_next(
    kind: str, given: Callable[..., None]
) -> None:
    taken: list[int] = []

    def exported(flat: Flat, tensors: tuple[Tensor, ...]) -> Any:
        taken.append(len(tensors))
        program = torch.export.export(flat, tuple(one.clone() for one in tensors), strict=False)
        module = program.module()
        return lambda *tensors: module(*tensors)

    given(engine=exported)
    x, past = torch.randn(1, 8), caches()[kind]
    before = [one.clone() for one in tensors_of(past)]
    gm = fxopt.capture(Step().eval(), (x, past))
    [row] = compare_engines(gm, (x, past), engines=["engine"], rounds=6).rows
    assert not row.problem
    assert taken == [3]
    assert row.numerics is not None
    assert len(row.numerics.outputs) == 3
    assert row.numerics.fits
    assert row.latency is not None
    assert len(row.latency.rounds) == 6
    assert all(map(torch.equal, tensors_of(past), before))


@pytest.mark.slow
def test_torch_compile_gets_a_cache_in_one_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "SAMPLE_SECONDS", 0.0001)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    x, past = torch.randn(1, 8), caches()["an object"]
    [row] = compare_engines(
        fxopt.capture(Step().eval(), (x, past)), (x, past), engines=["torch.compile"], rounds=6
    ).rows
    assert not row.problem
    assert row.latency is not None
    assert len(row.latency.rounds) == 6
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_a_compiler_that_compiles_nothing_is_no_row_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.compile", lambda model, backend: model)
    monkeypatch.setattr(engines, "ENGINES", ENGINES[:1])
    row = rows()["torch.compile"]
    assert row.problem == "EngineError: torch.compile compiled nothing, and called the model as it is"
    assert (row.latency, row.numerics, row.setup_seconds) == (None, None, None)


@pytest.mark.parametrize("end", [0.0, 0.25, 0.5, 0.8])
def test_it_ends_where_it_is_no_longer_wanted_and_keeps_the_rows_that_are_done(
    end: float, given: Callable[..., None]
) -> None:
    given(one=lambda flat, tensors: flat, other=lambda flat, tensors: flat)
    report = compare_engines(net(), (X,), engines=["one", "other"], rounds=6, on_progress=lambda share: share < end)
    assert report.stopped == "cancelled"
    assert len(report.rows) == (1 if end > 0.5 else 0)


def test_the_verdict_names_the_fastest_engine() -> None:
    def report(ratio: float) -> Any:
        return latency.report_of([latency.Round(ratio, 1.0, ratio)] * 10)

    found = [EngineRow("A", latency=report(1.5)), EngineRow("B", latency=report(2.0)), EngineRow("C", problem="no")]
    assert EnginesReport(tuple(found)).verdict == "B is the fastest of 2: 2.00x faster [2.00, 2.00]"
    slow = (EngineRow("A", latency=report(0.5)), EngineRow("C", problem="no"))
    assert EnginesReport(slow).verdict == "none of 1 is shown to be faster than the original"
    assert EnginesReport(slow[1:]).verdict == "no engine could be measured"


def test_the_telemetry_of_openvino_is_out_of_reach_while_it_is_imported() -> None:
    name = "openvino_telemetry"
    with runtimes._without_telemetry(), pytest.raises(ImportError):
        __import__(name)
    assert name not in sys.modules


@pytest.mark.slow
def test_torch_compile_is_measured_with_weights_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "SAMPLE_SECONDS", 0.0001)
    [row] = compare_engines(net(), (X,), engines=["torch.compile"], rounds=6).rows
    assert not row.problem
    assert row.numerics is not None
    assert row.numerics.fits
    assert not torch._inductor.config.freezing


@pytest.mark.slow
@pytest.mark.parametrize("engine", WHEELS)
def test_an_engine_runs_a_graph_of_containers_and_says_of_another_why_not(engine: str) -> None:
    """The wheels are in folders of their own, which `make .cache/onnx/ready .cache/openvino/ready` makes."""
    wheels = WHEELS[engine]
    if not (wheels / "ready").exists():
        pytest.skip(f"made by: make {wheels.relative_to(ROOT)}/ready")
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{wheels}"}
    done = subprocess.run(
        [sys.executable, "-c", RUN, engine], env=environment, capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "svd" in done.stdout, done.stdout
