"""Messages where a model cannot be captured."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx import GraphModule

from fxopt.core import FxoptError
from fxopt.graph.nodes import info_of
from fxopt.tracing import CaptureError, InputError, budget, capture
from tests.tracing.zoo import Perceptron, build, vector


class DecidesByData(Perceptron):
    def forward(self, x):
        y = self.first(x)
        if y.sum() > 0:
            return self.second(y)
        return x


class ReadsItem(Perceptron):
    def forward(self, x):
        largest = x.max().item()
        return self.first(x) if largest > 0 else x


class LoopsOverData(Perceptron):
    def forward(self, x):
        for _ in range(int(x.abs().sum())):
            x = self.second(self.first(x))
        return x


class ReadsNumpy(Perceptron):
    def forward(self, x):
        return self.first(x) + float(x.detach().numpy().sum())


class Asserts(Perceptron):
    def forward(self, x):
        assert (x.abs() < 100).all(), "too large"
        return self.first(x)


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Linear(8, 8)
        self.inner = nn.Sequential(build(DecidesByData))

    def forward(self, x):
        return self.inner(self.start(x))


CASES = {
    DecidesByData: "if y.sum() > 0:",
    LoopsOverData: "for _ in range(int(x.abs().sum())):",
    Asserts: 'assert (x.abs() < 100).all(), "too large"',
}


def failure_of(model: nn.Module, **options: Any) -> CaptureError:
    with pytest.raises(CaptureError) as caught:
        capture(model, (vector(),), **options)
    return caught.value


@pytest.mark.parametrize("kind", CASES)
def test_the_message_has_the_line_each_way_and_what_to_try(kind: type[nn.Module]) -> None:
    error = failure_of(build(kind))
    assert isinstance(error, FxoptError)
    assert [each.rung for each in error.rungs] == ["plain torch.fx", "symbolic sizes", "fixed sizes"]
    assert error.line.file == __file__
    assert error.line.text == CASES[kind]
    text = str(error)
    assert f"{__file__}:{error.line.line}" in text
    assert CASES[kind] in text
    assert "depends on the data in a tensor" in text
    assert "torch.where" in text
    assert "allow_baked=True" in text


@pytest.mark.parametrize("kind", [ReadsItem, ReadsNumpy])
def test_reading_a_value_names_the_line(kind: type[nn.Module]) -> None:
    error = failure_of(build(kind))
    assert all(each.line.file == __file__ and each.line.function == "forward" for each in error.rungs)


def test_the_partial_graph_ends_before_the_failing_line_and_is_told() -> None:
    error = failure_of(build(DecidesByData))
    assert "The graph up to there has 4 nodes and ends in first, sum_1, gt." in str(error)
    partial = error.partial
    assert isinstance(partial, GraphModule)
    assert [node.name for node in partial.graph.nodes] == ["x", "first", "sum_1", "gt", "output"]
    assert info_of(next(iter(partial.graph.nodes))).shape == ("batch", 8)
    assert partial(vector()).dtype is torch.bool


def test_the_module_that_failed_can_be_kept_whole() -> None:
    error = failure_of(Outer().eval())
    assert "leaf='inner.0'" in str(error)
    gm = capture(Outer().eval(), (vector(),), leaf="inner.0")
    assert [node.name for node in gm.graph.nodes] == ["x", "start", "inner_0", "output"]


@pytest.mark.parametrize("kind", [*CASES, ReadsItem, ReadsNumpy])
def test_real_values_are_taken_on_request_and_listed(kind: type[nn.Module]) -> None:
    model = build(kind)
    gm = capture(model, (vector(),), allow_baked=True)
    report = gm.meta["fxopt"]
    assert report.rung == "real"
    assert report.verified
    assert not report.free
    assert [baked.line.file for baked in report.baked] == [__file__]
    torch.testing.assert_close(gm(vector()), model(vector()))


def test_baked_values_say_what_they_were() -> None:
    (baked,) = capture(build(ReadsItem), (torch.full((2, 8), 3.0),), allow_baked=True).meta["fxopt"].baked
    assert (baked.function, baked.value) == ("item", "3.0")
    assert "item gave 3.0 at" in str(baked)


class CutsToAsManyAsAreTrue(Perceptron):
    def forward(self, x):
        positive = x[0][x[0] > 0] if x.sum() < 0 else x
        return self.first(x)[:, : positive.size(0)]


def test_a_size_that_data_decides_is_among_the_baked_values() -> None:
    x = torch.tensor([[1.0, 2.0, 3.0] + [-9.0] * 5] * 2)
    gm = capture(build(CutsToAsManyAsAreTrue), (x,), allow_baked=True)
    decision, size = gm.meta["fxopt"].baked
    assert decision.function == "__bool__"
    assert str(size).startswith(f"index gave a result of size (3,) at {__file__}")
    within = nn.Sequential(build(CutsToAsManyAsAreTrue)).eval()
    kept_whole = capture(within, (x,), allow_baked=True, dynamic="none", leaf="0")
    assert not kept_whole.meta["fxopt"].baked


class Raises(Perceptron):
    def forward(self, x):
        raise ValueError("no such thing")


def test_a_model_that_raises_itself_is_told_apart() -> None:
    error = failure_of(build(Raises))
    assert "Raises itself raises on the example" in str(error)
    assert "ValueError: no such thing" in str(error)
    assert error.line.text == 'raise ValueError("no such thing")'
    assert isinstance(error.__cause__, ValueError)


def test_without_verification_the_ways_tell_that_the_model_raises() -> None:
    error = failure_of(build(Raises), verify=False)
    assert all("ValueError: no such thing" in each.reason for each in error.rungs)


def test_inputs_that_do_not_fit_the_signature_are_refused() -> None:
    with pytest.raises(InputError, match=r"do not fit Perceptron.forward\(x\): missing a required argument: 'x'"):
        capture(build(Perceptron))
    with pytest.raises(InputError, match="unexpected keyword argument 'y'"):
        capture(build(Perceptron), (vector(),), {"y": 1})


@pytest.mark.parametrize(
    ("dynamic", "message"),
    [
        ("some", "dynamic='some' is unknown"),
        ({"y": [0]}, "dynamic names 'y', but the inputs are x"),
        ({"x": [2]}, r"dimensions \[2\] of x"),
    ],
)
def test_unknown_sizes_to_keep_free_are_refused(dynamic: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        capture(build(Perceptron), (vector(),), dynamic=dynamic)


class HidesModules(Perceptron):
    def __init__(self):
        super().__init__()
        self.modules = [self.first, self.second]


class HasOneThatHides(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Perceptron()
        self.inner.parameters = {}

    def forward(self, x):
        return self.inner(x)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (HidesModules, r"HidesModules\.modules is a list, which hides nn\.Module\.modules\(\).*another name"),
        (HasOneThatHides, r"Perceptron\.parameters \(at inner\) is a dict, which hides nn\.Module\.parameters\(\)"),
    ],
)
def test_an_attribute_that_hides_a_method_of_modules_is_named(kind: type[nn.Module], message: str) -> None:
    model = kind().eval()
    with pytest.raises(CaptureError, match=f"(?s){message}"):
        capture(model, (vector(),))


class TakesForever(Perceptron):
    def forward(self, x):
        if x.shape[1] == 8:
            x = x + 1
        return self.first(x)


def test_a_budget_that_is_used_up_leads_to_fixed_sizes() -> None:
    gm = capture(build(TakesForever), (vector(),), budget=0.0)
    report = gm.meta["fxopt"]
    assert report.rung == "fixed"
    assert "more than the budget of 0.0 s of CPU time" in report.tried[-1].reason
    assert all("sizes of its example only" in fixed.reason for fixed in report.fixed)


def test_the_error_pickles_to_its_text() -> None:
    error = failure_of(build(DecidesByData))
    assert all(pickle.loads(pickle.dumps(each)) == each for each in error.rungs)


class Unstable(Perceptron):
    """Gives something else at each call: no graph can be proven."""

    calls = 0

    def forward(self, x):
        Unstable.calls += 1
        return self.first(x) * Unstable.calls


def test_a_graph_that_does_not_replay_is_not_handed_out() -> None:
    error = failure_of(build(Unstable))
    assert all("on the example, output 0 differs by up to" in each.reason for each in error.rungs)


def test_stages_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "SECONDS_BETWEEN_NEWS", float("inf"))  # on a slow machine there is more news
    stages: list[str] = []
    capture(build(TakesForever), (vector(),), progress=stages.append)
    assert stages == ["running the model", "plain torch.fx", "symbolic sizes", "comparing with the model"]
