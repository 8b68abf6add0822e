"""Bars that tell how many parameters a box holds."""

from __future__ import annotations

import torch
from torch import nn

from fxopt.view import GraphView, visible
from fxopt.view.costs import bars, parameters_of
from tests.view import graphs


def test_every_box_tells_the_parameters_it_reads() -> None:
    gm = graphs.tower()
    view = GraphView.of(gm)
    shown = visible(view, view.module_classes)
    told = {shown.items[index].name: text for index, (_, text) in bars(parameters_of(gm), shown).items()}
    assert told["stem"] == "40 parameters"
    assert told["layer_0_query"] == "72 parameters"
    assert "matmul" not in told


def test_a_folded_module_tells_the_sum_of_its_nodes_and_the_largest_box_fills_its_bar() -> None:
    gm = graphs.tower()
    shown = visible(GraphView.of(gm))
    found = bars(parameters_of(gm), shown)
    block = sum(parameter.numel() for parameter in gm.get_submodule("layer.0").parameters())
    assert found[shown.owner["@layer.0"]] == (1.0, f"{block} parameters")
    assert found[shown.owner["stem"]] == (round(40 / block, 3), "40 parameters")


def test_weights_that_are_read_twice_in_one_box_count_once() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(2, 2, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(self.linear(x)) + self.linear.weight

    gm = torch.fx.symbolic_trace(Twice())
    costs = parameters_of(gm)
    assert len(costs) == 3
    shown = visible(GraphView.of(gm), (), hide=())
    assert {text for _, text in bars(costs, shown).values()} == {"4 parameters"}
    assert len({pair for pairs in costs.values() for pair in pairs}) == 1


def test_a_graph_without_parameters_has_no_bars() -> None:
    gm = torch.fx.symbolic_trace(nn.ReLU())
    assert bars(parameters_of(gm), visible(GraphView.of(gm))) == {}
