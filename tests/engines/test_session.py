"""A region in ONNX Runtime or OpenVINO computes its body, for the weights, sizes and types that the engine has."""

import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

import fxopt
from fxopt.engines import SessionRegion, runtimes
from fxopt.engines.runtimes import Runtime

ROOT = Path(__file__).parents[2]
WHEELS = {"onnxruntime": ROOT / ".cache/onnx", "openvino": ROOT / ".cache/openvino"}
X = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
Change = Callable[[Tensor], Tensor]
Given = Callable[..., list[int]]


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Given:
    """Puts an engine in the place of ONNX Runtime that runs the program in torch; returns its numbers of threads."""

    def given(change: Change = lambda one: one) -> list[int]:
        loaded: list[int] = []

        def load(program: ExportedProgram, threads: int) -> Callable[..., tuple[Tensor, ...]]:
            loaded.append(threads)
            weights = {name: one.clone() for name, one in program.state_dict.items()}
            model = program.module()
            model.load_state_dict(weights, assign=True)  # an engine has copies
            return lambda *tensors: tuple(change(one.contiguous()) for one in model(*tensors))

        monkeypatch.setitem(runtimes.RUNTIMES, "onnxruntime", Runtime("Engine", (), "", load))
        return loaded

    return given


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.sigmoid(self.linear(x))
        return y, (y * 2).t()


def region() -> tuple[SessionRegion, Net]:
    net = Net().eval()
    return SessionRegion(torch.fx.symbolic_trace(net), "onnxruntime"), net


def agrees(one: nn.Module, net: nn.Module, x: Tensor) -> None:
    for found, expected in zip(one(x), net(x)):
        torch.testing.assert_close(found, expected)
        assert found.stride() == expected.stride()


@torch.no_grad()
def test_results_lie_in_memory_as_those_of_the_body_and_follow_the_weights(given: Given) -> None:
    loaded = given()
    one, net = region()
    for act in (
        lambda: net.linear.weight.add_(1),
        lambda: net.linear.load_state_dict(nn.Linear(8, 4).state_dict()),
        lambda: setattr(net.linear, "weight", nn.Parameter(torch.randn(4, 8))),
    ):
        before = len(loaded)
        agrees(one, net, X)
        agrees(one, net, X)
        assert len(loaded) == before + 1
        act()
    agrees(one, net, X)


def test_the_engine_gets_the_number_of_threads_of_torch(given: Given) -> None:
    loaded = given()
    one, net = region()
    threads = torch.get_num_threads()
    try:
        for number in (1, 2, 1):
            torch.set_num_threads(number)
            with torch.inference_mode():
                agrees(one, net, X)
    finally:
        torch.set_num_threads(threads)
    assert loaded == [1, 2]


@torch.no_grad()
def test_a_size_that_changes_is_free_from_then_on(given: Given) -> None:
    loaded = given()
    one, net = region()
    for rows in (3, 5, 7, 2, 100, 3):
        agrees(one, net, torch.randn(rows, 8))
    assert len(loaded) == 2
    agrees(one, net, torch.randn(1, 8))
    agrees(one, net, torch.randn(8, 6).t())
    assert len(loaded) == 3


@torch.no_grad()
def test_where_no_session_is_left_for_a_size_the_region_is_computed(given: Given) -> None:
    loaded = given()
    graph = torch.fx.Graph()
    graph.output(graph.call_method("mul", (graph.placeholder("x"), graph.placeholder("number"))))
    one = SessionRegion(torch.fx.GraphModule({}, graph).eval(), "onnxruntime")
    for number in (2, 3, 4):
        torch.testing.assert_close(one(X, number), X * number)
    with pytest.warns(fxopt.FxoptWarning) as caught:
        assert torch.equal(one(X, 5), X * 5)
    (told,) = caught
    assert str(told.message) == (
        "a region of 4 nodes is computed node by node for such inputs: 3 sessions of Engine for other inputs are held, "
        "each with a copy of the weights; pad the inputs to fewer sizes"
    )
    assert torch.equal(one(X, 5), X * 5)
    assert one.by_hand.startswith("3 sessions of Engine for other inputs are held")
    assert len(loaded) == 3
    assert "failed" not in repr(one)


@torch.no_grad()
def test_sizes_of_1_take_no_session_from_others(given: Given) -> None:
    loaded = given()
    one = SessionRegion(torch.fx.symbolic_trace(nn.Sequential(nn.Sigmoid(), nn.Tanh()).eval()), "onnxruntime")
    for rows, columns in ((1, 4), (1, 5), (4, 1), (5, 1), (1, 1), (2, 3), (4, 5), (7, 6)):
        x = torch.randn(rows, columns)
        torch.testing.assert_close(one(x), x.sigmoid().tanh())
    assert len(loaded) == 5


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda one: one + 1, "its result is off by 1, with numbers up to 0."),
        (lambda one: one * torch.nan, "its result is off by"),
        (Tensor.double, "it gives a tensor float64 3 x 4, and the region float32 3 x 4"),
        (lambda one: one[:, :1], "it gives a tensor float32 3 x 1, and the region float32 3 x 4"),
    ],
    ids=["numbers", "NaN", "type", "shape"],
)
@torch.no_grad()
def test_an_engine_that_computes_another_function_is_found_out(given: Given, change: Change, reason: str) -> None:
    loaded = given(change)
    one, net = region()
    with pytest.warns(fxopt.FxoptWarning, match=reason):
        y, _ = one(X)
    assert torch.equal(y, net(X)[0])
    assert torch.equal(one(X)[0], y)
    assert len(loaded) == 1


@torch.no_grad()
def test_a_later_error_of_the_engine_is_told_and_one_of_the_region_is_raised(given: Given) -> None:
    left = iter(range(2))
    given(lambda one: (next(left), one)[1])
    one, net = region()
    agrees(one, net, X)
    with pytest.warns(fxopt.FxoptWarning, match="Engine failed on a region of 6 nodes.*StopIteration"):
        y, _ = one(X)
    assert torch.equal(y, net(X)[0])
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        one(torch.randn(3, 7))


@torch.no_grad()
def test_numbers_of_other_types_are_computed_node_by_node(given: Given) -> None:
    loaded = given()
    one, net = region()
    net.double()
    assert one(X.double())[0].dtype == torch.float64
    assert one.by_hand == "x is float64; Engine takes dense float32, integers and booleans on the CPU"
    assert not loaded


@torch.no_grad()
def test_an_empty_batch_is_computed_node_by_node(given: Given) -> None:
    loaded = given()
    one, _ = region()
    assert one(torch.randn(0, 8))[0].shape == (0, 4)
    assert one.by_hand.startswith("x is empty")
    assert not loaded


@torch.no_grad()
def test_openvino_is_not_asked_about_inputs_that_are_not_finite(given: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    given(lambda one: one.nan_to_num(0.0))
    monkeypatch.setitem(runtimes.RUNTIMES, "openvino", runtimes.RUNTIMES["onnxruntime"])
    one = SessionRegion(region()[0].body, "openvino")
    one(X)
    assert not one.by_hand
    y, _ = one(torch.full_like(X, torch.nan))
    assert y.isnan().all()
    assert one.by_hand == "an input is not finite, and OpenVINO gives numbers for NaN"


@torch.no_grad()
def test_copies_and_pickles_are_set_up_anew(given: Given) -> None:
    loaded = given()
    one, net = region()
    agrees(one, net, X)
    for other in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        agrees(other, net, X)
    assert len(loaded) == 3


RUN = """
import pickle, sys, torch
from torch import nn
import fxopt
from fxopt.engines import SessionRegion
from fxopt.evidence import compare_outputs, latency, measure
latency.SAMPLE_SECONDS = 0.0001

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.conv, self.act = nn.Embedding(9, 8), nn.Conv1d(8, 8, 3, padding=1), nn.ReLU(inplace=True)
        self.norm = nn.BatchNorm1d(8)
    def forward(self, ids, mask):
        y = self.act(self.norm(self.conv(self.table(ids).transpose(1, 2))))
        return y.masked_fill(mask[:, None] == 0, float("-inf")).softmax(-1), y.transpose(1, 2), mask == 0

inputs = torch.randint(9, (2, 5)), torch.ones(2, 5, dtype=torch.int64)
gm = fxopt.capture(Net().eval(), inputs)
before = fxopt.fingerprint(gm)
original = fxopt.core.shared_copy(gm)
fxopt.DelegateRegions(sys.argv[1])(gm)
assert compare_outputs(original, gm, [(inputs, {}), ((inputs[0][:, :4], inputs[1][:, :4]), {})]).fits
[region] = [one for one in gm.modules() if isinstance(one, SessionRegion)]
assert not region._failed and [len(one.made) for one in region._set_ups.values()] == [2]
with torch.inference_mode():
    again = pickle.loads(pickle.dumps(gm))(*inputs)
assert all(torch.allclose(one.float(), other.float(), atol=1e-6) for one, other in zip(again, original(*inputs)))
assert len(measure(original, gm, inputs, rounds=6).rounds) == 6
assert not region._failed and 1 in region._set_ups
fxopt.DelegateRegions(sys.argv[1])(gm, reverse=True)
assert fxopt.fingerprint(gm) == before
"""


@pytest.mark.slow
@pytest.mark.parametrize("package", WHEELS)
def test_an_engine_computes_a_region_with_evidence_and_the_way_back(package: str) -> None:
    """The wheels are in folders of their own, which `make .cache/onnx/ready .cache/openvino/ready` makes."""
    wheels = WHEELS[package]
    if not (wheels / "ready").exists():
        pytest.skip(f"made by: make {wheels.relative_to(ROOT)}/ready")
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{wheels}"}
    command = [sys.executable, "-c", RUN, package]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
