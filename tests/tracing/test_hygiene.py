"""A capture leaves no trace: on the model, on torch, on random numbers, in other threads."""

from __future__ import annotations

import contextlib
import copy
import functools
import random
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from fxopt.process.one_at_a_time import one_at_a_time
from fxopt.tracing import CaptureError, capture, preserved_parameters, rungs
from fxopt.tracing.hygiene import preserved
from tests.tracing.zoo import Convolutions, DecidesBySize, Perceptron, build, image, vector


def everything_about(model: nn.Module) -> dict[str, Any]:
    state = {
        name: (id(t), t.numpy().tobytes(), t.requires_grad)
        for name, t in model.state_dict(keep_vars=True).items()
        if t.requires_grad is False
    }
    state |= {name: (id(p), p.detach().numpy().tobytes(), p.requires_grad) for name, p in model.named_parameters()}
    attributes = {
        path: {
            name: (id(value), copy.copy(value) if isinstance(value, (list, dict)) else None)
            for name, value in module.__dict__.items()
        }
        for path, module in model.named_modules()
    }
    return {"state": state, "attributes": attributes, "modes": [module.training for module in model.modules()]}


def everything_global() -> dict[str, Any]:
    return {
        "call": nn.Module.__call__,
        "getattr": nn.Module.__getattr__,
        "autocast": (torch.autocast.__enter__, torch.autocast.__exit__),
        "flags": (torch.compiler._is_compiling_flag, torch.compiler._is_exporting_flag),
        "grad": torch.is_grad_enabled(),
        "dtype": torch.get_default_dtype(),
        "rng": torch.random.get_rng_state().tolist(),
        "python": random.getstate(),
        "warnings": list(warnings.filters),
        "modes": (torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()),
        "threads": torch.get_num_threads(),
    }


@functools.cache
def table(size: int) -> torch.Tensor:
    return torch.arange(float(size))


class Untidy(Convolutions):
    """Writes wherever a forward can write, and fails at the end where it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("last_mean", None)
        self.history: list[Any] = []
        self.cache: dict[Any, Any] = {"nested": {"deep": []}}
        self.fail = False

    def forward(self, x):
        self.count.add_(1)
        self.last = x
        self.last_mean = x.mean()
        self.history.append(x)
        self.cache["x"] = x
        self.cache["nested"]["deep"].append(x)
        random.random()
        torch.rand(2)
        y = super().forward(x) + table(4)
        if self.fail and y.sum() > -1e9:
            return x
        return y


def captured_or_not(model: nn.Module) -> None:
    try:
        capture(model, (image(),))
    except CaptureError:
        assert model.fail


@pytest.mark.parametrize("fail", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_model_and_torch_are_as_before(fail: bool, training: bool) -> None:
    model = build(Untidy).train(training)
    model.fail = fail
    table.cache_clear()
    before, globally = everything_about(model), everything_global()
    captured_or_not(model)
    assert everything_global() == globally
    assert everything_about(model) == before


@pytest.mark.parametrize("fail", [False, True])
def test_the_model_runs_as_before_afterwards(fail: bool) -> None:
    model, twin = build(Untidy), build(Untidy)
    expected = twin(image())
    model.fail = fail
    captured_or_not(model)
    model.fail = False
    result = model(image())
    assert type(result) is torch.Tensor
    torch.testing.assert_close(result, expected)


def test_no_fake_tensor_stays_in_a_cache_of_the_models_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rungs, "is_plain", lambda model: False)
    table.cache_clear()
    model = build(Untidy)
    capture(model, (image(),), verify=False)  # no ordinary run has filled the cache before
    assert not isinstance(table(4), FakeTensor)
    torch.testing.assert_close(model(image()), build(Untidy)(image()))


def test_batches_are_not_counted() -> None:
    model = build(Convolutions).train()
    statistics = model.body[1]
    before = statistics.running_mean.clone()
    capture(model, (image(),))
    assert statistics.num_batches_tracked == 0
    torch.testing.assert_close(statistics.running_mean, before)


class SwitchesModes(Perceptron):
    def forward(self, x):
        if x.shape[0] > 0:
            torch.set_grad_enabled(False)
            torch.set_default_dtype(torch.float64)
        return self.first(x)


def test_modes_that_forward_switches_are_switched_back() -> None:
    globally = everything_global()
    with torch.enable_grad():
        capture(build(SwitchesModes), (vector(),))
    assert everything_global() == globally


def test_capture_works_under_no_grad_and_keeps_it() -> None:
    with torch.no_grad():
        capture(build(DecidesBySize), (torch.randn(2, 6, 8),))
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()


def test_the_example_is_not_written_to() -> None:
    class Zeroes(Perceptron):
        def forward(self, x, y):
            y["z"].zero_()
            y["new"] = x
            return self.first(x.mul_(0))

    x, y = vector(), {"z": vector()}
    capture(build(Zeroes), (x, y))
    assert torch.equal(x, vector())
    assert torch.equal(y["z"], vector())
    assert list(y) == ["z"]


def test_hooks_of_layers_run_in_the_graph_and_stay_with_the_model() -> None:
    model = build(Perceptron)
    model.first.register_forward_hook(lambda module, args, output: output + 1)
    gm = capture(model, (vector(),))
    torch.testing.assert_close(gm(vector()), model(vector()))
    assert len(model.first._forward_hooks) == 1


class WaitsInside(Perceptron):
    """Stops in the middle of each forward for another thread to do something."""

    meanwhile: Callable[[], None] = staticmethod(lambda: None)

    def forward(self, x):
        if x.shape[0] > 0:
            x = self.first(x)
        WaitsInside.meanwhile()
        return self.second(x)


def in_thread(act: Callable[[], Any]) -> Callable[[], None]:
    """A call that runs `act` in another thread to its end, and raises its error."""

    def run() -> None:
        errors: list[BaseException] = []

        def guarded() -> None:
            try:
                act()
            except BaseException as error:  # noqa: BLE001  it is raised again in the thread that asked
                errors.append(error)

        thread = threading.Thread(target=guarded)
        thread.start()
        thread.join(60)
        assert not thread.is_alive()
        if errors:
            raise errors[0]

    return run


@pytest.mark.parametrize("plain", [True, False])
def test_other_threads_run_modules_as_ever_during_a_capture(plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rungs, "is_plain", lambda model: plain)
    other = build(Convolutions)
    expected = other(image())
    seen = []

    def run_other() -> None:
        result = other(image())
        seen.append((type(result), torch.equal(result, expected), bool(torch.compiler.is_exporting())))

    model = build(WaitsInside if not plain else WaitsPlainly)
    monkeypatch.setattr(WaitsInside, "meanwhile", staticmethod(in_thread(run_other)))
    gm = capture(model, (vector(),), verify=False)
    assert gm.meta["fxopt"].rung == ("plain" if plain else "symbolic")
    assert seen == [(torch.Tensor, True, False)] * len(seen)
    assert seen
    assert [node.name for node in gm.graph.nodes] == ["x", "first", "second", "output"]


class WaitsPlainly(Perceptron):
    def forward(self, x):
        x = self.first(x)
        WaitsInside.meanwhile()
        return self.second(x)


def test_a_capture_waits_for_another_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    class WaitsError(Exception):
        pass

    def give_up():
        raise WaitsError

    waited = []

    def enter():
        with pytest.raises(WaitsError), one_at_a_time(waiting=give_up):
            pass
        waited.append(True)

    monkeypatch.setattr(WaitsInside, "meanwhile", staticmethod(in_thread(enter)))
    capture(build(WaitsPlainly), (vector(),))
    assert waited


def test_two_captures_at_once_both_work() -> None:
    example, x = torch.randn(2, 6, 8), torch.randn(3, 7, 8)
    models = [build(DecidesBySize) for _ in range(2)]  # here: what builds them holds torch's generator for itself
    globally = everything_global()
    results: dict[int, Any] = {}
    ready = threading.Barrier(2)

    def act(index: int) -> None:
        ready.wait(60)
        results[index] = models[index], capture(models[index], (example,))

    threads = [threading.Thread(target=act, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert everything_global() == globally
    assert results.keys() == {0, 1}
    for model, gm in results.values():
        torch.testing.assert_close(gm(x), model(x))


@pytest.mark.slow
def test_the_first_recording_of_a_process_leaves_it_without_a_warning() -> None:
    """It imports torch's compiler, which wraps `torch.manual_seed`."""
    code = """
        import sys, warnings, torch, fxopt
        from fxopt.tracing import rungs
        warnings.simplefilter("error", fxopt.core.FxoptWarning)
        assert "torch._dynamo" not in sys.modules
        rungs.is_plain = lambda model: False
        fxopt.capture(torch.nn.Sequential(torch.nn.Linear(4, 4)), (torch.randn(2, 4),))
        assert "torch._dynamo" in sys.modules
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_a_model_that_compiles_for_the_first_time_is_no_trace_left_behind() -> None:
    """Torch's compiler then notes for good when a module is made."""
    code = """
        import warnings, torch, fxopt
        from fxopt.process.one_at_a_time import one_at_a_time
        warnings.simplefilter("error", fxopt.core.FxoptWarning)
        before = torch.nn.Module.__init__
        with one_at_a_time():
            torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
        assert torch.nn.Module.__init__ is not before
        torch.nn.Linear(2, 2)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


class Prototypes(nn.Module):
    """Writes to its parameters in each run."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.linear, self.how = nn.Linear(4, 3, bias=False), how

    def forward(self, x):
        if self.how == "under no_grad":
            with torch.no_grad():
                self.linear.weight.copy_(nn.functional.normalize(self.linear.weight, dim=1))
        elif self.how == "times a number":
            with torch.no_grad():
                self.linear.weight.mul_(1.5)
        elif self.how == "another data":
            self.linear.weight.data = self.linear.weight.data * 1.5
        elif self.how == "a row":
            self.linear.weight.data[0].mul_(1.5)
        elif self.how == "several":
            torch._foreach_mul_([self.linear.weight.detach()], 1.5)
        return self.linear(x)


@pytest.mark.parametrize("how", ["under no_grad", "times a number", "another data", "a row", "several"])
def test_parameters_that_forward_writes_to_are_as_before(how: str) -> None:
    model = build(lambda: Prototypes(how))
    weight, data = model.linear.weight, model.linear.weight.data.clone()
    place = weight.data_ptr()
    with contextlib.suppress(CaptureError):
        capture(model, (torch.rand(2, 4),))
    assert model.linear.weight is weight
    assert weight.data_ptr() == place
    assert torch.equal(weight.data, data)


def test_a_large_model_whose_forward_writes_to_a_parameter_is_told_to_be_loaded_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(preserved_parameters, "MOST_COPIED", 8)
    with (
        pytest.warns(UserWarning, match=r"parameter linear\.weight, .* load the model again"),
        preserved(model := build(lambda: Prototypes("times a number"))),
    ):
        model(torch.rand(2, 4))


def test_an_operator_that_torch_compiles_works_after_a_capture_as_before() -> None:
    class Branches(nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (x,))

    x = torch.rand(3)
    with preserved(Branches()):
        torch.testing.assert_close(Branches()(x), x.sin())
    torch.testing.assert_close(Branches()(x), x.sin())
