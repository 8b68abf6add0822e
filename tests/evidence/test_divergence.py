from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, symbolic_trace

from fxopt.evidence import first_difference
from fxopt.models import model_source

X = torch.linspace(-2, 2, 8).view(2, 4)


class Steps(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)

    def forward(self, x: Tensor, scale: float = 3.0) -> Any:
        x = self.first(x)
        y = x.relu_()
        parts = (y / scale).chunk(2, dim=-1)
        return self.second(torch.cat(parts, -1)), parts[1]


def steps() -> GraphModule:
    return symbolic_trace(Steps())


def test_a_copy_differs_nowhere() -> None:
    gm = steps()
    assert first_difference(gm, copy.deepcopy(gm), (X,)) is None
    source = model_source("digits_conv_net")
    model = source.build()
    args, kwargs = source.inputs(model)
    assert first_difference(symbolic_trace(model), symbolic_trace(source.build()), args, kwargs) is None


def test_the_first_node_that_differs_is_named_and_measured() -> None:
    gm = steps()
    new = copy.deepcopy(gm)
    with torch.no_grad():
        new.get_parameter("second.bias").add_(0.5)
    found = first_difference(gm, new, (X,))
    assert found is not None
    assert found.node == "second"
    assert found.report.difference is not None
    assert abs(found.report.difference.max_abs - 0.5) < 1e-6
    assert found.agreeing == [node.name for node in gm.graph.nodes].index("second")


def test_nodes_that_return_several_tensors_are_compared_by_their_parts() -> None:
    gm = steps()
    new = copy.deepcopy(gm)
    (chunk,) = [node for node in new.graph.nodes if node.target == "chunk"]
    with new.graph.inserting_before(chunk):
        chunk.args = (new.graph.call_function(torch.neg, (chunk.args[0],)), *chunk.args[1:])
    new.recompile()
    found = first_difference(gm, new, (X,))
    assert found is not None
    assert found.node == chunk.name
    assert found.report.name in ("[0]", "[1]")


def test_a_value_counts_as_it_was_before_a_later_node_changed_it() -> None:
    gm = steps()
    new = copy.deepcopy(gm)
    (relu,) = [node for node in new.graph.nodes if node.target == "relu_"]
    relu.target = "relu"  # the input of relu_ has the same value until relu_ changes it
    new.recompile()
    assert first_difference(gm, new, (X,)) is None


def test_inputs_by_keyword_and_defaults_are_passed_on() -> None:
    gm = steps()
    assert first_difference(gm, copy.deepcopy(gm), (), {"x": X}) is None
    assert first_difference(gm, copy.deepcopy(gm), (X,), {"scale": 2.0}) is None


def test_the_graphs_are_left_as_they_were() -> None:
    norm = symbolic_trace(nn.Sequential(nn.BatchNorm1d(4)))
    first_difference(norm, copy.deepcopy(norm), (X,))
    assert norm.get_buffer("0.num_batches_tracked").item() == 0
