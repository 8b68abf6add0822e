"""`fxopt.record`: a pipeline step by step."""

from __future__ import annotations

import operator
import threading

import pytest
import torch
from torch import nn
from torch.fx import GraphModule

import fxopt

X = torch.rand(2, 3, 8, 8)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn, self.q, self.k = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 4), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.bn(self.conv(x))).mean((2, 3))
        return (self.q(x) * 1 + self.k(x)) * torch.ones(4)


@pytest.fixture
def gm() -> GraphModule:
    return fxopt.capture(Net().eval(), (X,))


def swap(gm: GraphModule) -> None:
    for node in gm.graph.find_nodes(op="call_function", target=operator.add):
        node.target = operator.sub
    gm.recompile()


def test_our_passes_compositions_reversals_and_any_function_are_steps(gm: GraphModule) -> None:
    with fxopt.record(gm) as log:
        fxopt.compose(fxopt.RemoveIdentities(), fxopt.MergeLinears())(gm)
        fxopt.as_pass(swap)(gm)
        assert log.step("by hand", swap) is gm
        log.step("dead code", lambda gm: gm.graph.eliminate_dead_code())
        fxopt.MergeLinears()(gm, reverse=True)
    fxopt.FuseBatchNorm2dInConv2d()(gm)  # after the block: no step
    names = ["RemoveIdentities", "MergeLinears", "swap", "by hand", "dead code", "MergeLinears, reversed"]
    assert [step.name for step in log.steps] == names
    assert [step.is_changed for step in log.steps] == [True, True, True, False, False, True]
    assert all(step.seconds > 0 for step in log.steps)
    told = str(log)
    assert told.startswith("Log(6 steps, 4 of them changed something, ")
    assert "  3 swap: 1 change, " in told
    assert "add: add calls something else" in told


def test_each_new_node_is_told_with_the_nodes_that_it_came_from(gm: GraphModule) -> None:
    with fxopt.record() as log:
        fxopt.MergeLinears()(gm)
    (step,) = log.steps
    assert repr(log).startswith("Log(1 step, 1 of them changed something, ")
    assert set(step.came_from["q_k_merged"]) == {"q", "k"}
    assert set(step.came_from) == {node.name for node in step.after.graph.nodes} - {
        node.name for node in step.before.graph.nodes
    }


def test_a_step_keeps_its_graphs_as_they_were(gm: GraphModule) -> None:
    code = gm.code
    with fxopt.record() as log:
        fxopt.MergeLinears()(gm)
        merged = gm.code
        fxopt.RemoveIdentities()(gm)
    assert [(step.before.code, step.after.code) for step in log.steps] == [(code, merged), (merged, gm.code)]
    assert all(step.after(X).equal(gm(X)) for step in log.steps)
    fxopt.MergeLinears()(gm, reverse=True)  # recording has left the ledger as it is
    assert log.steps[0].before.code == code


def test_a_failed_step_is_none_and_other_threads_are_not_heard(gm: GraphModule) -> None:
    def fails(gm: GraphModule) -> None:
        raise KeyError("mine")

    with fxopt.record(gm) as log:
        with pytest.raises(KeyError, match="mine"):
            log.step("fails", fails)
        other = threading.Thread(target=lambda: fxopt.MergeLinears()(fxopt.trace(gm)))
        other.start()
        other.join()
        fxopt.RemoveIdentities()(gm)
    assert [step.name for step in log.steps] == ["RemoveIdentities"]


def test_wrong_uses_are_told(gm: GraphModule) -> None:
    with (
        pytest.raises(fxopt.FxoptError, match=r"fxopt\.record takes a graph module; this is a Net"),
        fxopt.record(Net()),
    ):  # type: ignore[arg-type]
        pass
    with fxopt.record() as log:
        for call, message in (
            (lambda: log.step("x", lambda gm: gm), r"needs a graph module to run on: give it one, or .*record\(gm\)"),
            (lambda: log.step("x", 3, gm), "takes a function; this is the int 3"),
            (lambda: log.step(swap, swap, gm), "takes a name and a function"),
            (lambda: log.step("x", lambda gm: 3, gm), "x has to return a graph module or None, and returned the int 3"),
            (lambda: log.step("x", swap, Net()), "takes a graph module; this is a Net"),
            (lambda: log.inductor(gm), "needs an example of the inputs, tensors"),
            (lambda: log.inductor(gm, torch.rand(2, 5, 8, 8)), "Inductor refuses the graph: .*"),
        ):
            with pytest.raises(fxopt.FxoptError, match=message):
                call()  # type: ignore[no-untyped-call]
    assert log.steps == []


@pytest.mark.slow
def test_the_passes_of_inductor_are_steps_and_no_code_is_generated(gm: GraphModule) -> None:
    before = fxopt.fingerprint(gm)
    with fxopt.record(gm) as log:
        log.inductor(None, X)
    assert fxopt.fingerprint(gm) == before
    stages = list(dict.fromkeys(step.stage for step in log.steps))
    assert stages == ["pre-grad", "joint", "post-grad"]
    changed = {step.title: step for step in log.changed}
    folded = changed["joint: constant_fold_uniform_value"]
    assert any("full" in told for told in folded.explained())
    assert len(folded.inputs) == len(folded.before.graph.find_nodes(op="placeholder"))
    with torch.no_grad():
        assert torch.allclose(folded.after(*folded.inputs)[0], gm(X), atol=1e-5)
