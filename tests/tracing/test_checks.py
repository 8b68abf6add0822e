"""The checks of a graph module last: through recompilation, deep copies, pickling and retracing."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import fx

from fxopt.tracing import CaptureReport, InputSizeError, capture, checks, install_checks
from fxopt.tracing.checks import CallInputs, InputPath, LengthCheck, SizeCheck, Step, TensorCheck, ValueCheck
from fxopt.tracing.structure import dismantle
from tests.tracing.zoo import DecidesBySize, Perceptron, build

ALLOWED, REFUSED = torch.randn(3, 5, 8), torch.randn(3, 4, 8)


@pytest.fixture
def gm() -> fx.GraphModule:
    return capture(build(DecidesBySize), (torch.randn(2, 6, 8),))


def assert_checked(gm: torch.nn.Module) -> None:
    gm(ALLOWED)
    with pytest.raises(InputSizeError, match="sequence > 4"):
        gm(REFUSED)


def test_checks_last_through_deep_copies_of_copies(gm: fx.GraphModule) -> None:
    assert_checked(copy.deepcopy(copy.deepcopy(gm)))
    assert len(copy.deepcopy(copy.deepcopy(gm))._forward_pre_hooks) == 1


def test_checks_last_through_a_change_of_the_graph(gm: fx.GraphModule) -> None:
    for node in gm.graph.find_nodes(op="call_module"):
        with gm.graph.inserting_after(node):
            relu = gm.graph.call_function(torch.relu, (node,))
        node.replace_all_uses_with(relu, delete_user_cb=lambda user, relu=relu: user is not relu)
    gm.graph.lint()
    gm.recompile()
    assert_checked(gm)
    assert_checked(copy.deepcopy(gm))


def test_checks_last_through_renaming_of_the_placeholder_node(gm: fx.GraphModule) -> None:
    (placeholder,) = gm.graph.find_nodes(op="placeholder")
    placeholder._rename("tokens")
    gm.recompile()
    assert_checked(gm)
    with pytest.raises(InputSizeError):
        gm(x=REFUSED)


def test_checks_can_be_installed_again_after_pickling(gm: fx.GraphModule) -> None:
    report = pickle.loads(pickle.dumps(gm.meta["fxopt"]))
    assert report == gm.meta["fxopt"]
    loaded = pickle.loads(pickle.dumps(gm))
    loaded(REFUSED)
    loaded.meta["fxopt"] = report
    install_checks(loaded)
    assert_checked(loaded)


def test_a_module_that_contains_the_graph_can_be_traced() -> None:
    gm = capture(build(Perceptron), (torch.randn(2, 8),))
    around = fx.symbolic_trace(torch.nn.Sequential(gm))
    torch.testing.assert_close(around(ALLOWED), gm(ALLOWED))


def test_checks_are_plain_data() -> None:
    path = InputPath("past", (Step(0), Step("key"), Step(1, in_object=True)))
    made = (
        SizeCheck("a == b", (("a", path, 0), ("b", InputPath("x"), 1))),
        TensorCheck(path, 2),
        LengthCheck(path, 2),
        ValueCheck(InputPath("flag"), True),
    )
    assert str(path) == "past[0]['key'].tensor1"
    assert path.argument == "past"
    assert pickle.loads(pickle.dumps(made)) == made
    assert len({CaptureReport("plain").rung}) == 1


def test_true_is_not_taken_for_one() -> None:
    check = ValueCheck(InputPath("flag"), True)
    check.check(CallInputs({"flag": True}))
    with pytest.raises(ValueError, match="captured with flag == True, here it is 1"):
        check.check(CallInputs({"flag": 1}))
    ValueCheck(InputPath("x"), float("nan")).check(CallInputs({"x": float("nan")}))


class Cache:
    def __init__(self, *tensors: torch.Tensor) -> None:
        self.tensors, self.count = list(tensors), 2


class ReadsCache(torch.nn.Module):
    def forward(self, cache: Cache) -> torch.Tensor:
        return sum((tensor.cos() for tensor in cache.tensors), torch.zeros(()))


def test_an_object_is_dismantled_once_for_all_checks_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(*torch.randn(6, 2, 3))
    gm = capture(ReadsCache(), (cache,))
    assert len(gm.meta["fxopt"].checks) > 6
    dismantled: list[object] = []
    monkeypatch.setattr(checks, "dismantle", lambda value: dismantled.append(value) or dismantle(value))
    gm(cache)
    assert dismantled == [cache]


def test_an_object_is_looked_at_anew_in_each_call() -> None:
    cache = Cache(*torch.randn(6, 2, 3))
    gm = capture(ReadsCache(), (cache,))
    gm(cache)
    cache.tensors[5] = torch.randn(2, 3, 1)
    with pytest.raises(InputSizeError, match=r"cache.tensor5 has 2 dimensions, here it has the shape \(2, 3, 1\)"):
        gm(cache)
    cache.tensors[5], cache.count = torch.randn(2, 3), 3
    with pytest.raises(ValueError, match=r"captured with cache.count == 2, here it is 3"):
        gm(cache)


class AddsOnceOrTwice(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor, twice: bool = False) -> torch.Tensor:
        return x + 2 * y if twice else x + y


def test_an_input_that_a_call_leaves_out_is_left_to_its_default_or_to_python() -> None:
    x = torch.randn(2, 3)
    gm = capture(AddsOnceOrTwice(), (x, x), {"twice": True})
    assert torch.equal(gm(x, x), 3 * x)
    with pytest.raises(ValueError, match="captured with twice == True, here it is False"):
        gm(x, x, twice=False)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'y'"):
        gm(x)
