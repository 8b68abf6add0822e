"""Bars that tell the cost of a box, and the boxes along a way."""

from __future__ import annotations

import torch
from torch import nn

from fxopt.evidence import Costs, critical_path, parameter_costs
from fxopt.view import GraphView, VisibleGraph, visible
from fxopt.view.cost_bars import bars, boxes_along
from tests.view import graphs


def parameter_bars(gm: torch.fx.GraphModule, shown: VisibleGraph) -> dict[int, tuple[float, str]]:
    costs = parameter_costs(gm)
    return bars(costs.parts, shown, costs.told)


def test_every_box_tells_the_parameters_it_reads() -> None:
    gm = graphs.tower()
    view = GraphView.of(gm)
    shown = visible(view, view.module_classes)
    told = {shown.items[index].name: text for index, (_, text) in parameter_bars(gm, shown).items()}
    assert told["stem"] == "40 parameters"
    assert told["layer_0_query"] == "72 parameters"
    assert "matmul" not in told


def test_a_folded_module_tells_the_sum_of_its_nodes_and_the_largest_box_fills_its_bar() -> None:
    gm = graphs.tower()
    shown = visible(GraphView.of(gm))
    found = parameter_bars(gm, shown)
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
    assert len(parameter_costs(gm).parts) == 3
    shown = visible(GraphView.of(gm), (), hide=())
    assert {text for _, text in parameter_bars(gm, shown).values()} == {"4 parameters"}
    assert parameter_costs(gm).of_all(node.name for node in gm.graph.nodes) == 4


def test_a_graph_that_costs_nothing_has_no_bars() -> None:
    gm = torch.fx.symbolic_trace(nn.ReLU())
    assert parameter_bars(gm, visible(GraphView.of(gm))) == {}


def test_the_critical_path_leads_through_every_folded_block_once() -> None:
    gm = graphs.tower()
    folded = visible(GraphView.of(gm))
    path = critical_path(gm, parameter_costs(gm))
    names = [folded.items[index].name for index in boxes_along(path.nodes, folded)]
    assert [name for name in names if name.startswith("@")] == ["@layer.0", "@layer.1"]
    assert (names[0], names[-1]) == ("x", "output")
    assert all(
        edge in folded.edges for edge in zip(boxes_along(path.nodes, folded), boxes_along(path.nodes, folded)[1:])
    )


def test_nodes_that_a_picture_leaves_out_are_skipped_on_a_way() -> None:
    shown = visible(GraphView.of(graphs.tower()))
    assert boxes_along(["x", "not there", "stem", "stem"], shown) == (shown.owner["x"], shown.owner["stem"])
    assert boxes_along([], shown) == ()


def test_an_amount_is_told_to_three_digits() -> None:
    bytes_, flops = Costs("byte", {}), Costs("FLOP", {})
    assert [bytes_.told(amount) for amount in (1, 999, 1000, 123_456_789)] == ["1 byte", "999 bytes", "1 kB", "123 MB"]
    assert [flops.told(amount) for amount in (1, 8_213_000_000, 2 * 10**18)] == ["1 FLOP", "8.21 GFLOP", "2e+03 PFLOP"]
