"""The checks of a graph module last: through recompilation, deep copies, pickling and retracing."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import fx

from fxopt.tracing import CaptureReport, InputSizeError, capture, install_checks
from fxopt.tracing.checks import InputPath, LengthCheck, SizeCheck, Step, TensorCheck, ValueCheck
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
    checks = (
        SizeCheck("a == b", (("a", path, 0), ("b", InputPath("x"), 1))),
        TensorCheck(path, 2),
        LengthCheck(path, 2),
        ValueCheck(InputPath("flag"), True),
    )
    assert str(path) == "past[0]['key'].tensor1"
    assert path.argument == "past"
    assert pickle.loads(pickle.dumps(checks)) == checks
    assert len({CaptureReport("plain").rung}) == 1


def test_true_is_not_taken_for_one() -> None:
    check = ValueCheck(InputPath("flag"), True)
    check.check({"flag": True})
    with pytest.raises(ValueError, match="captured with flag == True, here it is 1"):
        check.check({"flag": 1})
    ValueCheck(InputPath("x"), float("nan")).check({"x": float("nan")})
