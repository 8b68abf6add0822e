"""All times here are made up: the clock is a counter that the models move on."""

from __future__ import annotations

import math
import os
import random
import threading
import time
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fxopt.evidence import Round, latency, measure, report_of
from fxopt.evidence.latency_report import EARLY_ROUNDS, machine

X = (torch.ones(2),)


class FakeTime:
    """A clock, and models that take some of its time; `speed` is that of the machine at the moment."""

    def __init__(self, noise: float = 0.0, seed: int = 0) -> None:
        self.now = 0.0
        self.random = random.Random(seed)
        self.noise = noise
        self.speed = 1.0

    def __call__(self) -> float:
        return self.now

    def model(self, seconds: float) -> nn.Module:
        fake_time = self

        class Model(nn.Module):
            calls = 0

            def forward(self, x: Tensor) -> Tensor:
                self.calls += 1
                assert torch.is_inference_mode_enabled()
                assert torch.get_num_threads() == 1
                fake_time.now += seconds * fake_time.speed * math.exp(fake_time.random.gauss(0, fake_time.noise))
                return x

        return Model()


def measured(before: float, after: float, noise: float = 0.02, seed: int = 0, **options: Any) -> Any:
    time = FakeTime(noise, seed)
    return measure(time.model(before), time.model(after), X, clock=time, wall=time, **options)


def test_a_faster_graph_is_called_faster_by_its_ratio() -> None:
    report = measured(0.048, 0.040)
    assert report.shown
    assert report.ratio == pytest.approx(1.2, abs=0.03)
    assert report.low < report.ratio < report.high
    assert report.verdict == f"{report.ratio:.2f}x faster [{report.low:.2f}, {report.high:.2f}]"


def test_a_measurement_ends_early_where_it_may_and_a_difference_is_shown_by_then() -> None:
    assert len(measured(0.040, 0.060, early=True).rounds) == EARLY_ROUNDS
    assert len(measured(0.040, 0.060).rounds) == 15
    assert len(measured(0.040, 0.040, early=True).rounds) == 15
    assert len(measured(0.040, 0.060, early=True, rounds=6).rounds) == 6


def test_a_sample_is_hardly_longer_than_it_has_to_be() -> None:
    for seconds in (1e-4, 3e-4, 9.9e-4, 1.01e-3):
        took = measured(seconds, seconds, noise=0, rounds=1).calls_per_sample * seconds
        assert latency.SAMPLE_SECONDS <= took <= 1.2 * latency.SAMPLE_SECONDS


def test_a_measurement_that_may_end_early_has_shorter_samples() -> None:
    early = measured(1e-4, 1e-4, noise=0, rounds=1, early=True).calls_per_sample
    assert early == pytest.approx(latency.EARLY_SHARE * measured(1e-4, 1e-4, noise=0, rounds=1).calls_per_sample, abs=1)


def test_a_slower_graph_is_called_slower() -> None:
    report = measured(0.040, 0.060)
    assert report.verdict.startswith(f"{1 / report.ratio:.2f}x slower [{1 / report.high:.2f}, ")
    assert report.ratio == pytest.approx(2 / 3, abs=0.03)


def test_two_equal_graphs_are_hardly_ever_told_apart() -> None:
    shown = [measured(0.04, 0.04, noise=0.1, seed=seed).shown for seed in range(60)]
    assert sum(shown) <= 4


def test_an_effect_within_the_spread_of_the_original_against_itself_is_not_claimed() -> None:
    rounds = [Round(1.0, 0.97, 1.0 / 1.05) for _ in range(15)]
    report = report_of(rounds)
    assert report.low > 1
    assert report.control_low == pytest.approx(1.05)
    assert report.verdict == "no difference shown [1.03, 1.03]; the original against itself [1.05, 1.05]"


def test_a_machine_that_slows_down_from_round_to_round_changes_nothing() -> None:
    time = FakeTime(noise=0.01)

    def slow_down(share: float) -> None:
        time.speed = 1 + 9 * share

    report = measure(time.model(0.04), time.model(0.04), X, clock=time, wall=time, budget=1e9, on_progress=slow_down)
    assert not report.shown


def test_few_rounds_give_no_answer() -> None:
    for few in range(1, 6):  # 5 rounds lie on one side of the truth 1 time of 16
        report = report_of([Round(2.0, 1.0, 2.0)] * few)
        assert not report.shown
        assert report.verdict == f"not enough rounds for an answer ({few} of at least 6)"
    assert report_of([Round(2.0, 1.0, 2.0)] * 6).verdict == "2.00x faster [2.00, 2.00]"


def test_no_round_gives_no_figures() -> None:
    report = report_of([])
    assert math.isnan(report.ratio)
    assert math.isnan(report.before_ms)
    assert "not enough rounds" in report.verdict


def test_medians_are_those_of_the_rounds_in_milliseconds() -> None:
    report = report_of([Round(0.1, 0.2, 0.1), Round(0.3, 0.2, 0.1), Round(0.9, 0.1, 0.1)])
    assert (report.before_ms, report.after_ms) == (300, 200)
    assert list(report.frame["before ms"]) == [100, 300, 900]
    assert len(report.frame) == 3


def test_samples_are_long_enough_whatever_a_call_takes() -> None:
    assert measured(0.05, 0.05, noise=0).calls_per_sample == 1
    assert measured(0.0101, 0.5, noise=0).calls_per_sample == 2
    assert measured(1e-5, 1e-5, noise=0, rounds=1).calls_per_sample >= 2000


def test_a_clock_that_stands_still_does_not_hang() -> None:
    time = FakeTime()
    report = measure(time.model(0.0), time.model(1e-9), X, rounds=1, clock=time, wall=time)
    assert report.calls_per_sample == 10_000


def test_the_original_is_measured_twice_a_round_in_an_order_that_varies() -> None:
    time = FakeTime()
    before, after = time.model(0.1), time.model(0.2)
    order: list[tuple[int, int]] = []
    measure(before, after, X, clock=time, wall=time, budget=1e9,
            on_progress=lambda _: order.append((before.calls, after.calls)))  # type: ignore[arg-type, func-returns-value]  # fmt: skip
    assert (before.calls, after.calls) == (2 + 30, 2 + 15)
    places = [[b[1] - a[1] for a, b in zip([(2, 2), *order], order)][i : i + 3].index(1) for i in range(0, 45, 3)]
    assert set(places) == {0, 1, 2}


def test_progress_goes_up_to_one_and_false_cancels() -> None:
    shares: list[float] = []
    report = measured(0.03, 0.03, rounds=6, on_progress=shares.append)
    assert shares == pytest.approx([number / 18 for number in range(1, 19)])
    assert (report.stopped, report.cancelled, len(report.rounds)) == (None, False, 6)

    report = measured(0.03, 0.03, rounds=6, on_progress=lambda share: share < 0.5)
    assert (report.stopped, report.cancelled, len(report.rounds)) == ("cancelled", True, 3)

    report = measured(0.03, 0.03, rounds=6, on_progress=lambda share: False)
    assert (report.cancelled, len(report.rounds)) == (True, 0)


def test_a_budget_ends_it_with_the_rounds_that_are_done() -> None:
    report = measured(1.0, 1.0, noise=0, budget=20.0)
    assert report.stopped == "out of time (20 s)"
    assert 5 <= len(report.rounds) < 15
    assert not report.cancelled


class Slow(nn.Module):
    """A hundred calls of torch, each of which takes some seconds of a made-up clock."""

    def __init__(self, time: FakeTime, seconds: float) -> None:
        super().__init__()
        self.time, self.seconds, self.steps = time, seconds, 0

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(100):
            x = torch.neg(x)
            self.steps += 1
            self.time.now += self.seconds
        return x


@pytest.mark.parametrize("after_steps", [5, 250, 1234])
def test_a_long_run_is_cancelled_between_two_calls_of_torch(after_steps: int) -> None:
    time = FakeTime()
    model = Slow(time, 0.1)
    report = measure(
        model, model, X, clock=time, wall=time, budget=1e9, on_progress=lambda _: model.steps < after_steps
    )
    assert (report.cancelled, model.steps) == (True, after_steps)
    assert len(report.rounds) == max(after_steps - 400, 0) // 300


def test_a_budget_ends_a_long_run_and_a_long_warm_up_too() -> None:
    time = FakeTime()
    model = Slow(time, 1.0)
    report = measure(model, model, X, clock=time, wall=time, budget=60.0)
    assert (report.stopped, report.rounds, model.steps) == ("out of time (60 s)", (), 61)


def test_a_short_run_is_measured_without_a_look_at_its_calls() -> None:
    time = FakeTime()
    model, told = Slow(time, 0.001), []
    report = measure(model, model, X, clock=time, wall=time, budget=1e9, rounds=6, on_progress=told.append)  # type: ignore[arg-type, func-returns-value]
    assert len(report.rounds) == 6
    assert len(told) == 2 * 100 + 3 * 6, "the first run of each model, and the samples"


def test_a_run_that_was_long_only_once_is_measured_without_a_look_at_its_calls() -> None:
    time = FakeTime()

    class SetsUp(Slow):
        def forward(self, x: Tensor) -> Tensor:
            self.time.now += 10 * (self.steps == 0)
            return super().forward(x)

    told: list[float] = []
    report = measure(
        Slow(time, 0.001), SetsUp(time, 0.001), X, clock=time, wall=time, budget=1e9, rounds=6, on_progress=told.append
    )  # type: ignore[arg-type, func-returns-value]
    assert len(report.rounds) == 6
    assert len(told) == 4 * 100 + 3 * 6, "the first two runs of each model, and the samples"


@pytest.mark.parametrize("in_place", [False, True])
def test_a_compiled_model_is_measured_compiled(in_place: bool) -> None:
    calls = {"compiled": 0}

    def backend(gm: torch.fx.GraphModule, example: Any) -> Any:
        def compiled(*args: Any) -> Any:
            calls["compiled"] += 1
            return gm(*args)

        return compiled

    class Wave(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.sin().cos()

    model: Any = Wave()
    if in_place:
        model.compile(backend=backend)
    else:
        model = torch.compile(model, backend=backend)
    with torch.inference_mode():
        model(torch.ones(3))
    try:
        measure(Wave(), model, (torch.ones(3),), rounds=3)
        before = calls["compiled"]
        with torch.inference_mode():
            model(torch.ones(3))
    finally:
        torch._dynamo.reset()
    assert calls["compiled"] == before + 1 > 3


def test_threads_come_back_after_an_error_and_after_success() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        measured(0.03, 0.03)
        assert torch.get_num_threads() == 2

        def stop(share: float) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            measured(0.03, 0.03, on_progress=stop)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


def test_measurements_take_turns_and_leave_the_threads_to_all() -> None:
    threads = torch.get_num_threads()
    told: list[float] = []
    waits = threading.Event()
    seen: list[list[float]] = []

    def second_progress(share: float) -> None:
        told.append(share)
        waits.set()

    second = threading.Thread(target=lambda: measured(0.03, 0.03, rounds=2, on_progress=second_progress))

    def first_progress(share: float) -> None:
        if not seen:
            second.start()
            assert waits.wait(60)
            seen.append(list(told))

    measured(0.03, 0.03, rounds=2, on_progress=first_progress)
    second.join()
    assert seen == [[0.0]]  # while the first was running, the second had not begun
    assert told[-1] == 1
    assert torch.get_num_threads() == threads


def test_one_that_waits_for_its_turn_can_be_cancelled() -> None:
    with latency._MEASURING:
        report = measured(0.03, 0.03, on_progress=lambda share: share > 0)
    assert (report.cancelled, report.rounds) == (True, ())


def test_inputs_and_buffers_are_as_they_were() -> None:
    class Greedy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            return x.add_(1)

    model, x = Greedy(), torch.zeros(3)
    measure(model, model, (), {"x": x}, rounds=1)
    assert (model.calls.item(), x.tolist()) == (0, [0, 0, 0])


def test_the_same_seed_gives_the_same_figures() -> None:
    assert measured(0.04, 0.05, seed=3) == measured(0.04, 0.05, seed=3)
    assert measured(0.04, 0.05, seed=3) != measured(0.04, 0.05, seed=4)


def test_the_machine_and_its_threads_are_named() -> None:
    report = report_of([Round(1.0, 1.0, 1.0)])
    assert report.threads == 1
    assert report.machine == machine()
    assert report.machine.endswith(f"{torch.backends.cpu.get_cpu_capability()}), {os.cpu_count()} cores")


def test_with_threads_the_time_on_the_wall_is_measured_while_torch_computes_with_so_many() -> None:
    seen: set[int] = set()

    class Sees(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            seen.add(torch.get_num_threads())
            time.sleep(0.002)  # takes no time of the processor
            return x

    before = torch.get_num_threads()
    report = measure(Sees(), Sees(), X, rounds=6, threads=2)
    assert seen == {2}
    assert torch.get_num_threads() == before
    assert (report.threads, report.is_wall) == (2, True)
    assert report.before_ms >= 2
