"""After a capture that failed, at any point, a model runs as if nothing had been."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from fxopt.tracing import CaptureCancelledError, CaptureError, budget, capture, example_inputs, rungs, tape
from fxopt.tracing.structure import dismantle, tensors_of
from tests.quick import quick, third
from tests.tracing.test_hygiene import everything_about, everything_global
from tests.tracing.zoo import PLAIN, TRANSFORMERS, Perceptron, build, leaf_calls, vector

Case = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]

MODELS = [*quick(TRANSFORMERS, "bert"), *third(PLAIN)]


def case_of(name: str) -> Case:
    if name in TRANSFORMERS:
        model = TRANSFORMERS[name]()
        return model, (), example_inputs(model)
    kind, example = PLAIN[name]
    return build(kind), *example(3)


class StopError(Exception):
    """The error that a hook raises at the end of a recording, and in no ordinary run."""


def fail_in_last_layer(case: Case) -> Any:
    model, args, kwargs = case

    def stop(module: nn.Module, args: Any, kwargs: Any) -> None:
        parts = dismantle((args, kwargs))[1]
        if any(isinstance(part, FakeTensor) or type(part) is not torch.Tensor for part in parts):
            raise StopError

    last = model.get_submodule(leaf_calls(model, *args, **kwargs)[-1])
    return last.register_forward_pre_hook(stop, with_kwargs=True)


@torch.no_grad()
def answers(case: Case) -> list[torch.Tensor]:
    model, args, kwargs = case
    return tensors_of(model(*args, **kwargs))


@pytest.mark.parametrize("name", MODELS)
def test_the_model_runs_and_is_as_before_after_a_failed_capture(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rungs, "is_plain", lambda model: False)
    case = case_of(name)
    model, args, kwargs = case
    expected, globally = answers(case_of(name)), everything_global()
    hook = fail_in_last_layer(case)
    before = everything_about(model)
    with pytest.raises(CaptureError, match="StopError"):
        capture(model, args, kwargs, verify=False)
    assert everything_about(model) == before
    assert everything_global() == globally
    hook.remove()
    for x, y in zip(expected, answers(case), strict=True):
        assert type(y) in (torch.Tensor, nn.Parameter)
        torch.testing.assert_close(y, x)


class Notebook:
    """An object of the model's own, with tensors in it."""

    def __init__(self) -> None:
        self.pages: list[torch.Tensor] = []


SHARED: dict[str, torch.Tensor] = {}


class WritesEverywhere(Perceptron):
    on_class: list[torch.Tensor] = []

    def __init__(self) -> None:
        super().__init__()
        self.notebook = Notebook()
        self.register_buffer("average", torch.zeros(16))
        self.fail = False

    def forward(self, x):
        y = self.first(x)
        self.notebook.pages.append(y)
        self.notebook.last = y
        self.on_class.append(y)
        SHARED["y"] = y
        self.average.mul_(0.9).add_(y.mean(0), alpha=0.1)
        if self.fail and y.sum() > -1e9:
            return y
        return self.second(y + self.average)


@pytest.mark.filterwarnings("ignore:The .grad attribute")
@pytest.mark.parametrize("fail", [True, False])
def test_objects_classes_files_and_buffers_hold_nothing_of_the_recording(fail: bool) -> None:
    model = build(WritesEverywhere)
    model.fail = fail
    if fail:
        with pytest.raises(CaptureError):
            capture(model, (vector(),))
    else:
        capture(model, (vector(),))
    assert vars(model.notebook) == {"pages": []}
    assert WritesEverywhere.on_class == []
    assert SHARED == {}
    assert not model.average.any()
    assert model.average.is_leaf
    assert not model.average.requires_grad


class StopsInside(Perceptron):
    """Other than a plain module: it has to be recorded."""

    def forward(self, x):
        for _ in range(3 if x.shape[0] else 0):
            x = self.second(self.first(x))
        return x


def test_the_one_who_is_told_can_end_a_capture_at_each_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "SECONDS_BETWEEN_NEWS", float("inf"))  # on a slow machine there is more news
    stages: list[str] = []
    capture(build(StopsInside), (vector(),), progress=stages.append)
    for last in range(len(stages)):
        told: list[str] = []

        def progress(stage: str, told: list[str] = told, last: int = last) -> bool:
            told.append(stage)
            return len(told) <= last

        model = build(StopsInside)
        before, globally = everything_about(model), everything_global()
        with pytest.raises(CaptureCancelledError, match="the capture of StopsInside was cancelled at"):
            capture(model, (vector(),), progress=progress)
        assert told == stages[: last + 1]
        assert everything_about(model) == before
        assert everything_global() == globally


def test_a_long_recording_tells_how_far_it_is_and_can_be_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "SECONDS_BETWEEN_NEWS", -1.0)
    stages: list[str] = []
    capture(build(StopsInside), (vector(),), progress=stages.append)
    assert "symbolic sizes, after 3 calls" in stages
    with pytest.raises(CaptureCancelledError, match="after 3 calls"):
        capture(build(StopsInside), (vector(),), progress=lambda stage: "after 3" not in stage)


def test_a_recording_is_ended_only_where_python_called_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception that passes through an operation of torch with symbolic sizes may end the process."""

    class Watched(budget.Clock):
        def tick(self) -> None:
            frame = sys._getframe()
            while frame.f_back is not None:
                frame = frame.f_back
                assert frame.f_code.co_name != "__torch_dispatch__"
            super().tick()

    monkeypatch.setattr(tape, "Clock", Watched)
    report = capture(build(StopsInside), (vector(),)).meta["fxopt"]
    assert (report.rung, [each.rung for each in report.tried]) == ("symbolic", ["plain torch.fx"])


class SpendsBudget(Perceptron):
    calls = 0

    def forward(self, x):
        for _ in range(40 if x.shape[0] else 0):
            SpendsBudget.calls += 1
            x = self.second(self.first(x))
        return x


def test_the_budget_ends_a_recording_within_a_call_or_two(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        """A second passes each time it is looked at."""

        now = 0.0

        def thread_time(self) -> float:
            self.now += 1
            return self.now

        def perf_counter(self) -> float:
            return 0.0

    monkeypatch.setattr(budget, "time", Clock())
    SpendsBudget.calls = 0
    report = capture(build(SpendsBudget), (vector(),), budget=20.0, verify=False).meta["fxopt"]
    assert report.rung == "fixed"
    (tried,) = [each for each in report.tried if "budget of 20.0 s" in each.reason]
    assert tried.line.file == __file__
    assert SpendsBudget.calls < 60


def test_two_failing_captures_at_once_leave_no_trace() -> None:
    models = [build(WritesEverywhere) for _ in range(2)]  # here: what builds them holds torch's generator for itself
    globally = everything_global()
    ready = threading.Barrier(2)
    errors: list[CaptureError] = []

    def act(model: nn.Module) -> None:
        model.fail = True
        ready.wait(60)
        try:
            capture(model, (vector(),), verify=False)
        except CaptureError as error:
            errors.append(error)
        assert type(model.first(vector())) is torch.Tensor

    threads = [threading.Thread(target=act, args=(model,)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(errors) == 2
    assert everything_global() == globally
