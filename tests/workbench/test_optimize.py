"""`fxopt.optimize`: one call, and the evidence for it."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.fx import GraphModule

import fxopt
from fxopt.core import shared_copy
from fxopt.engines import RUNTIMES, PlannedRegion, SessionRegion
from fxopt.engines.runtimes import Runtime
from fxopt.evidence import NodeTimes, latency
from fxopt.evidence.latency_report import Round, report_of
from fxopt.packed import BFloat16Linear, PackedConv2d, PackedLinear, supports
from fxopt.workbench.tuning import _ratio, packing_times

X = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def net() -> nn.Module:
    layers = (nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout())
    return nn.Sequential(*layers, nn.Linear(8, 4), nn.GELU()).eval()


def test_the_passes_run_in_an_order_in_which_each_finds_its_sites() -> None:
    model = net()
    before = copy.deepcopy(model.state_dict())
    module, report, _ = fxopt.optimize(model, X, measured=False)
    kinds = [type(module.get_submodule(str(n.target))) for n in module.graph.nodes if n.op == "call_module"]
    assert kinds == [PackedConv2d, nn.AdaptiveAvgPool2d, nn.Flatten, PackedLinear]
    assert report.numerics.fits
    assert "FuseBatchNorm2dInConv2d: 1 of 1 sites" in str(report)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_exact_keeps_every_bit() -> None:
    _, report, _ = fxopt.optimize(net(), (X,), level="exact")
    assert report.numerics.identical
    assert [state.sites_on for state in report.states] == [1, 0, 0]


def test_the_choices_replay_and_slower_sites_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    model = net()
    monkeypatch.setattr("fxopt.workbench.tuning._ratio", lambda matches, before, after: 0.5)
    module, report, choices = fxopt.optimize(model, {"input": X}, budget=0.2)
    assert isinstance(module.get_submodule("6"), nn.Linear)
    assert "2.00x slower when packed" in str(report)
    again = fxopt.optimize(model, {"input": X}, choices=choices, measured=False)
    assert fxopt.fingerprint(again.module) == fxopt.fingerprint(module)


def test_nothing_is_rewritten_where_the_whole_is_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    slower = report_of([Round(1.0, 2.0, 1.0)] * 9)
    monkeypatch.setattr("fxopt.workbench.optimize.measure", lambda *args, **kwargs: slower)
    module, report, choices = fxopt.optimize(net(), X)
    assert isinstance(module.get_submodule("0"), nn.Conv2d)
    assert "as it was captured" in str(report)
    assert not any(choice.on for choice in choices)


def test_packed_convolutions_are_left_out_where_the_whole_is_slower_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    slower, faster = (report_of([Round(1.0, seconds, 1.0)] * 9) for seconds in (2.0, 0.5))
    answers = iter([slower, faster])
    monkeypatch.setattr("fxopt.workbench.optimize.measure", lambda *args, **kwargs: next(answers))
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Conv2d(8, 8, 3), nn.ReLU()).eval()
    module, report, choices = fxopt.optimize(model, X)
    kinds = [type(module.get_submodule(str(n.target))) for n in module.graph.find_nodes(op="call_module")]
    assert kinds == [nn.Conv2d, nn.Conv2d, nn.ReLU]
    assert "left out: PackConvolutions, with which it is 2.00x slower" in str(report)
    assert report.latency is faster
    again = fxopt.optimize(model, X, choices=choices, measured=False)
    assert fxopt.fingerprint(again.module) == fxopt.fingerprint(module)


@pytest.mark.parametrize(("seconds", "kinds"), [(2.0, [nn.Linear, nn.Linear]), (0.5, [nn.Linear])])
def test_linears_are_merged_only_where_that_is_faster(
    monkeypatch: pytest.MonkeyPatch, seconds: float, kinds: list[type[nn.Module]]
) -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(8, 4), nn.Linear(8, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.a(x) * self.b(x)

    merged = report_of([Round(1.0, seconds, 1.0)] * 9)
    whole = report_of([Round(1.0, 0.9, 1.0)] * 9)
    answers = iter([merged, whole])
    monkeypatch.setattr("fxopt.workbench.optimize.measure", lambda *args, **kwargs: next(answers))
    monkeypatch.setattr("fxopt.workbench.tuning._ratio", lambda matches, before, after: 0.5)
    module, report, _ = fxopt.optimize(Two().eval(), torch.randn(3, 8))
    assert [type(one) for one in module.children() if isinstance(one, nn.Linear)] == kinds
    assert ("MergeLinears makes it 2.00x slower" in str(report)) == (seconds == 2.0)


@pytest.mark.skipif(not supports(torch.bfloat16), reason="needs instructions for bfloat16")
@pytest.mark.parametrize(
    ("narrow", "packed", "kinds", "told"),
    [
        ((2.0, 2.0), (1.0, 1.0), [BFloat16Linear] * 2, []),
        ((2.0, 2.0), (0.5, 0.5), [BFloat16Linear] * 2, []),
        ((0.5, 0.5), (0.5, 0.5), [nn.Linear] * 2, ["_0: BFloat16", "slower when packed", "_0: PackedLinear"]),
        ((1.0, 1.0), (0.5, 0.5), [nn.Linear] * 2, ["not faster when packed", "_2: PackedLinear"]),
        ((1.0, 1.0), (1.8, 1.8), [PackedLinear] * 2, ["1.80x slower than packed in float32"]),
        ((1.8, 1.8), (1.8, 1.8), [PackedLinear] * 2, ["not faster than packed in float32"]),
        ((2.0, 1.5), (1.8, 1.8), [BFloat16Linear, PackedLinear], ["_2: BFloat16", "1.20x slower than packed"]),
        ((2.0, 0.9), (0.5, 0.5), [BFloat16Linear, nn.Linear], ["_2: BFloat16", "_2: PackedLinear"]),
    ],
)
def test_linears_multiply_in_bfloat16_where_approximate_is_asked_for_and_nothing_exact_is_as_fast(
    monkeypatch: pytest.MonkeyPatch,
    narrow: tuple[float, float],
    packed: tuple[float, float],
    kinds: list[type[nn.Module]],
    told: list[str],
) -> None:
    def ratio(matches: Any, before: NodeTimes, after: NodeTimes) -> float:
        of = narrow if "BFloat16Linear" in after.calls.values() else packed
        return of[matches[0].site == "_2"]

    monkeypatch.setattr("fxopt.workbench.tuning._ratio", ratio)
    faster = report_of([Round(1.0, 0.5, 1.0)] * 9)
    monkeypatch.setattr("fxopt.workbench.optimize.measure", lambda *args, **kwargs: faster)
    model, x = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).eval(), torch.randn(3, 8)
    module, report, choices = fxopt.optimize(model, x, level="approximate")
    assert [type(one) for one in module.children() if isinstance(one, nn.Linear | PackedLinear)] == kinds
    again = fxopt.optimize(model, x, level="approximate", choices=choices, measured=False)
    with torch.inference_mode():
        assert torch.equal(again.module(x), module(x))
    assert ("differs, within" in str(report)) == (BFloat16Linear in kinds)
    left_out = [line for line in str(report).splitlines() if "left out: " in line]
    assert bool(left_out) == bool(told)
    assert all(part in "".join(left_out) for part in told), left_out
    rounding = fxopt.optimize(model, x, measured=False)
    assert not any(isinstance(one, BFloat16Linear) for one in rounding.module.children())


def test_without_time_to_measure_nothing_is_said_to_be_slower() -> None:
    module, report, _ = fxopt.optimize(net(), X, budget=0.0)
    assert isinstance(module.get_submodule("0"), PackedConv2d)
    assert "nothing is faster" not in str(report)


def test_packed_layers_that_are_alike_are_timed_together() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 4)).eval()
    x = torch.randn(3, 8)
    gm = fxopt.capture(model, (x,))
    packed = fxopt.PackLinears()(shared_copy(gm))
    first, second = packing_times(fxopt.PackLinears(), gm, packed, (x,), {})
    assert (first.sites, second.sites, first.shape) == (("_0", "_2"), ("_4",), ("batch", 8))
    assert min(first.ratio, second.ratio) > 0


def test_the_time_of_a_packed_layer_stands_beside_that_of_all_that_it_replaced() -> None:
    gm = fxopt.capture(nn.Sequential(nn.Linear(8, 8), nn.GELU()).eval(), (torch.randn(3, 8),))
    matches = list(fxopt.PackLinears().scan(gm).matches)
    calls = {"_0": "", "_1": ""}
    before = NodeTimes({"_0": 3.0, "_1": 1.0}, calls, calls, 4.0, 1)
    assert _ratio(matches, before, NodeTimes({"_0": 2.0}, calls, calls, 2.0, 1)) == 2.0


def measured_by(monkeypatch: pytest.MonkeyPatch, measure: Any) -> None:
    for module in ("optimize", "engine_trials"):
        monkeypatch.setattr(f"fxopt.workbench.{module}.measure", measure)


def in_place(body: GraphModule, backend: Any) -> GraphModule:
    """Stands for `torch.compile` with a backend that calls the graph as it is."""
    backend.graphs += 1
    return body


@pytest.mark.parametrize(("seconds", "compiles"), [(0.5, True), (2.0, False)])
def test_the_graph_is_compiled_only_where_that_is_faster(
    monkeypatch: pytest.MonkeyPatch, seconds: float, compiles: bool
) -> None:
    answers = iter([report_of([Round(1.0, seconds, 1.0)] * 9), report_of([Round(1.0, 0.4, 1.0)] * 9)])
    measured_by(monkeypatch, lambda *args, **kwargs: next(answers))
    monkeypatch.setattr("fxopt.workbench.optimize._pack_if_faster", lambda *args: ())
    monkeypatch.setattr("torch.compile", in_place)  # Inductor itself is tested with its pass
    module, report, choices = fxopt.optimize(net(), X, engine="inductor")
    kinds = {type(one).__name__ for one in module.children()}
    assert ("CompiledRegion" in kinds) == compiles
    assert ("PackedConv2d" in kinds) != compiles
    assert ("inductor against the graph without: 2.00x faster" in str(report)) == compiles
    assert report.engine == ("torch.compile" if compiles else "")
    assert ("\ncomputed by torch.compile\n" in str(report)) == compiles
    again = fxopt.optimize(net(), X, engine="inductor", choices=choices, measured=False)
    assert ("CompiledRegion" in {type(one).__name__ for one in again.module.children()}) == compiles


def test_no_engine_is_named_where_none_computed_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever keeps an engine from it, the report says so, and packed layers stay."""
    measured_by(monkeypatch, lambda *args, **kwargs: report_of([Round(1.0, 0.4, 1.0)] * 9))
    monkeypatch.setattr("fxopt.workbench.optimize._pack_if_faster", lambda *args: ())
    monkeypatch.setattr("torch.compile", lambda body, backend: body)
    for measured in (True, False):
        module, report, _ = fxopt.optimize(net(), X, engine="inductor", measured=measured)
        (trial,) = report.engines
        assert "torch.compile compiled nothing, and called the model as it is" in trial.problem
        assert (trial.seconds, trial.numerics, trial.latency, report.engine) == (None,) * 3 + ("",)
        assert "\n  inductor does not compute the graph: torch.compile failed" in str(report)
        assert "\ncomputed by torch, by no engine\n" in str(report)
        assert any(isinstance(one, PackedConv2d) for one in module.children())


def test_an_input_that_an_engine_is_not_given_is_named_in_the_report() -> None:
    graph = torch.fx.Graph()
    x = graph.call_method("mul", (graph.placeholder("x"), graph.placeholder("factor")))
    graph.output(graph.call_method("sin", (x,)))
    gm = torch.fx.GraphModule({}, graph).eval()
    gm = fxopt.annotate(gm, X, np.float64(2))
    _, report, _ = fxopt.optimize(gm, (X, np.float64(2)), engine="inductor", measured=False)
    assert "the input factor holds a float64; give tensors and plain numbers" in str(report)
    assert not report.engine


def test_choices_that_name_an_engine_are_told_where_it_does_not_compute_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RUNTIMES, "onnxruntime", in_torch(torch.clone))
    _, report, choices = fxopt.optimize(net(), X, engine="onnxruntime", measured=False)
    assert report.engine == "Engine"
    assert "\ncomputed by Engine\n" in str(report)
    monkeypatch.setitem(RUNTIMES, "onnxruntime", in_torch(lambda one: one + 1))
    with pytest.warns(fxopt.FxoptWarning, match="its result is off by 1"):
        _, report, _ = fxopt.optimize(net(), X, engine="onnxruntime", choices=choices, measured=False)
    assert not report.engine
    assert "computed by torch, by no engine: Engine failed: EngineError: its result is off by 1" in str(report)


@pytest.mark.skipif(not supports(torch.bfloat16), reason="needs instructions for bfloat16")
@pytest.mark.parametrize("computes", [True, False])
def test_an_engine_computes_in_float32_and_the_report_says_so(monkeypatch: pytest.MonkeyPatch, computes: bool) -> None:
    change = torch.clone if computes else lambda one: one + 1
    monkeypatch.setitem(RUNTIMES, "onnxruntime", in_torch(change))
    model, x = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).eval(), torch.randn(3, 8)
    module, report, _ = fxopt.optimize(model, x, level="approximate", engine="onnxruntime", measured=False)
    (cast,) = (one for one in report.states if one.name == "CastLinearsToBFloat16")
    assert cast.sites_on == (0 if computes else 2)
    assert any(isinstance(one, BFloat16Linear) for one in module.modules()) == (not computes)
    assert report.engine == ("Engine" if computes else "")


def in_torch(change: Callable[[torch.Tensor], torch.Tensor]) -> Runtime:
    """Return an engine that runs the program in torch."""

    def load(program: torch.export.ExportedProgram, threads: int) -> Any:
        model = program.module()
        return lambda *tensors: tuple(change(one) for one in model(*tensors))

    return Runtime("Engine", (), "", load)


@pytest.mark.parametrize(
    ("seconds", "kept"),
    [((0.7, 0.5), "openvino"), ((0.5, 0.7), "onnxruntime"), ((1.5, 1.2), "")],
    ids=["the last", "an earlier one", "none"],
)
def test_the_fastest_engine_is_kept_and_each_is_told(
    monkeypatch: pytest.MonkeyPatch, seconds: tuple[float, float], kept: str
) -> None:
    answers = iter([report_of([Round(1.0, one, 1.0)] * 9) for one in (*seconds, 0.4)])
    measured_by(monkeypatch, lambda *args, **kwargs: next(answers))
    monkeypatch.setattr("fxopt.workbench.optimize._pack_if_faster", lambda *args: ())
    monkeypatch.setattr("shutil.which", lambda name: None)
    for name in RUNTIMES:
        monkeypatch.setitem(RUNTIMES, name, in_torch(torch.clone))
    model = net()
    module, report, choices = fxopt.optimize(model, X, engine="fastest")
    assert [one.package for one in module.children() if isinstance(one, SessionRegion)] == ([kept] if kept else [])
    assert any(isinstance(one, PackedConv2d) for one in module.children()) == (not kept)
    inductor, onnx_runtime, _ = report.engines
    assert "no C++ compiler" in inductor.problem
    assert onnx_runtime.numerics is not None
    assert onnx_runtime.numerics.fits
    assert f"onnxruntime against the graph without: {onnx_runtime.latency.verdict}; outputs: " in str(report)  # type: ignore[union-attr]
    assert "; set up in " in str(report)
    again = fxopt.optimize(model, X, engine="fastest", choices=choices, measured=False)
    assert fxopt.fingerprint(again.module) == fxopt.fingerprint(module)


def test_an_engine_that_fails_or_computes_another_function_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    measured_by(monkeypatch, lambda *args, **kwargs: report_of([Round(1.0, 0.4, 1.0)] * 9))
    monkeypatch.setattr("fxopt.workbench.optimize._pack_if_faster", lambda *args: ())
    monkeypatch.setitem(RUNTIMES, "onnxruntime", in_torch(lambda one: one + 1))
    module, report, _ = fxopt.optimize(net(), X, engine="onnxruntime")
    assert any(isinstance(one, PackedConv2d) for one in module.children())
    (trial,) = report.engines
    assert "its result is off by 1" in trial.problem
    monkeypatch.setitem(RUNTIMES, "onnxruntime", in_torch(lambda one: one * (1 + 5e-4)))
    module, report, _ = fxopt.optimize(net(), X, engine="onnxruntime")
    assert any(isinstance(one, PackedConv2d) for one in module.children())
    assert report.engines[0].numerics is not None
    assert report.engines[0].numerics.fits is False


def test_it_is_compiled_before_it_is_measured_as_it_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def compiled(body: GraphModule, backend: Any) -> GraphModule:
        made.append(torch.get_num_threads())
        return in_place(body, backend)

    def measure(*args: Any, **kwargs: Any) -> Any:
        before = len(made)
        found = latency.measure(*args, **kwargs)
        assert len(made) == before, "it was compiled within the measurement"
        return found

    monkeypatch.setattr("torch.compile", compiled)
    measured_by(monkeypatch, measure)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        fxopt.optimize(net(), X, engine="inductor", budget=0.5)
    finally:
        torch.set_num_threads(threads)
    assert made.count(1) == 1


def test_packed_layers_stay_where_nothing_can_be_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    module, report, _ = fxopt.optimize(net(), X, engine="inductor", measured=False)
    assert isinstance(module.get_submodule("0"), PackedConv2d)
    (state,) = (one for one in report.states if one.name == "CompileRegions")
    assert "no C++ compiler" in str(state.misses[0])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"engine": "tensorrt"}, "no engine 'tensorrt'; give inductor, onnxruntime, openvino or fastest"),
        ({"engine": "fastest", "measured": False}, "measures to find it"),
        ({"engine": "inductor", "level": "exact"}, "give level='rounding'"),
        ({"engine": "inductor", "autotune": True}, "autotune judges nodes"),
    ],
)
def test_an_engine_that_cannot_be_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(fxopt.FxoptError, match=told):
        fxopt.optimize(net(), X, **options)


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(fxopt.FxoptError, match="there is no level 'fastest'; give one of exact, rounding"):
        fxopt.optimize(net(), X, level="fastest")  # type: ignore[arg-type]


def test_a_model_in_training_mode_is_refused() -> None:
    with pytest.raises(fxopt.FxoptError, match="Sequential is in training mode, and optimize is for inference"):
        fxopt.optimize(net().train(), X)


def test_autotune_keeps_what_pays_and_tells_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def seconds(gm: GraphModule) -> dict[str, float]:
        kinds = {n.name: type(gm.get_submodule(n.target)) for n in gm.graph.nodes if n.op == "call_module"}
        costs = {PackedLinear: 5.0, PackedConv2d: 0.1}
        return {n.name: costs.get(kinds.get(n.name, nn.Module), 1.0) for n in gm.graph.nodes}

    paired = lambda before, after, *args, **options: [(seconds(before), seconds(after))] * 9  # noqa: E731
    monkeypatch.setattr("fxopt.workbench.autotuning.paired_node_times", paired)
    monkeypatch.setattr("fxopt.workbench.autotuning.measure", lambda *args, **kwargs: report_of([Round(2, 1, 2)] * 9))
    module, report, choices = fxopt.optimize(net(), X, autotune=True, budget=0.5)
    assert isinstance(module.get_submodule("0"), PackedConv2d)
    assert isinstance(module.get_submodule("6"), nn.Linear)
    assert "PackLinears at _6: left out, costs" in str(report)
    assert report.numerics.fits
    again = fxopt.optimize(net(), X, choices=choices, measured=False)
    assert [node.name for node in again.module.graph.nodes] == [node.name for node in module.graph.nodes]


@pytest.mark.parametrize("options", [{"choices": ()}, {"measured": False}])
def test_autotune_makes_the_choices_itself(options: dict[str, Any]) -> None:
    with pytest.raises(fxopt.FxoptError, match="autotune measures to make the choices"):
        fxopt.optimize(net(), X, autotune=True, **options)


def test_the_result_can_be_pickled_and_reversed() -> None:
    module, _, _ = fxopt.optimize(net(), X, measured=False)
    again = pickle.loads(pickle.dumps(module))
    with torch.inference_mode():
        assert torch.equal(again(X), module(X))
    for kind in (fxopt.PackLinears, fxopt.PackConvolutions, fxopt.FuseBatchNorm2dInConv2d, fxopt.RemoveIdentities):
        kind()(again, reverse=True)
    assert [node.name for node in again.graph.nodes] == [n.name for n in fxopt.capture(net(), (X,)).graph.nodes]


@pytest.mark.parametrize("ratio", [1.5, 0.8])
def test_a_plan_stays_only_where_it_is_shown_to_be_faster(monkeypatch: pytest.MonkeyPatch, ratio: float) -> None:
    model = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.GELU()) for _ in range(8))).eval()
    x = torch.randn(2, 8)
    monkeypatch.setattr("fxopt.workbench.tuning._ratio", lambda matches, before, after: 2.0)
    reports = [report_of([Round(1.0, 1 / one, 1.0)] * 9) for one in (ratio, 2.0)]
    monkeypatch.setattr("fxopt.workbench.optimize.measure", lambda *args, **kwargs: reports.pop(0))
    module, report, choices = fxopt.optimize(model, x)
    assert any(isinstance(one, PlannedRegion) for one in module.modules()) is (ratio > 1)
    assert ("left out: PlanRegions" in str(report)) is (ratio < 1)
    again = fxopt.optimize(model, x, choices=choices, measured=False)
    assert fxopt.fingerprint(again.module) == fxopt.fingerprint(module)
    with torch.no_grad():
        torch.testing.assert_close(module(x), model(x))
