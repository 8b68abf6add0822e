"""Costs of nodes, counted by hand and by torch; and the heaviest path against every path there is."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Node, symbolic_trace
from torch.utils.flop_counter import FlopCounterMode

from fxopt.core import fingerprint
from fxopt.evidence import Costs, critical_path, parameter_costs, work_costs
from fxopt.packed import BFloat16Linear, Int8Linear, PackedLinear
from fxopt.passes import PlanRegions
from tests.view import graphs


def test_a_linear_layer_costs_two_operations_a_weight_and_row_and_moves_what_it_reads_and_writes() -> None:
    gm = symbolic_trace(nn.Sequential(nn.Linear(8, 5)))
    flops, moved = work_costs(gm, (torch.zeros(3, 8),))
    assert flops.of("_0") == 2 * 3 * 8 * 5
    assert moved.of("_0") == 4 * (3 * 8 + 8 * 5 + 5 + 3 * 5)
    assert parameter_costs(gm).of("_0") == 45
    assert flops.note == ""


@pytest.mark.parametrize(("kind", "size"), [(PackedLinear, 4), (BFloat16Linear, 2), (Int8Linear, 1)])
def test_a_packed_layer_reads_the_bytes_of_its_packed_weight(kind: type[PackedLinear], size: int) -> None:
    layer = nn.Linear(8, 5)
    gm = symbolic_trace(nn.Sequential(layer))
    gm.set_submodule("0", kind(layer.weight, layer.bias))
    flops, moved = work_costs(gm, (torch.zeros(3, 8),))
    assert flops.of("_0") == 2 * 3 * 8 * 5
    assert moved.of("_0") == 4 * (3 * 8 + 5 + 3 * 5) + size * 8 * 5
    gm = symbolic_trace(nn.Sequential(nn.Sequential(nn.ReLU(), layer)).eval())  # in a region, the same
    gm.set_submodule("0.1", kind(layer.weight, layer.bias))
    _, apart = work_costs(gm, (torch.zeros(3, 8),))
    PlanRegions()(gm)
    _, moved = work_costs(gm, (torch.zeros(3, 8),))
    assert moved.of("planned") == apart.of("_0_0") + apart.of("_0_1")


def test_what_goes_number_by_number_counts_once_for_each_and_a_view_costs_nothing() -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x.transpose(0, 1) * 2).view(-1)[None]

    flops, moved = work_costs(symbolic_trace(Model()), (torch.zeros(4, 6),))
    assert dict(flops.parts) == {"mul": frozenset({("mul", 24)})}
    assert dict(moved.parts) == {"mul": frozenset({("mul", 4 * 48)})}


def test_what_has_no_formula_counts_once_for_each_number_and_is_named() -> None:
    flops, _ = work_costs(symbolic_trace(nn.Sequential(nn.LayerNorm(8))), (torch.zeros(3, 8),))
    assert flops.of("_0") == 24
    assert "native_layer_norm" in flops.note


def test_integers_and_lookups_are_no_floating_point_operations() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(1000, 4)

        def forward(self, numbers: Tensor) -> Tensor:
            return self.table(numbers + 1)

    flops, moved = work_costs(symbolic_trace(Model()), (torch.zeros(2, 3, dtype=torch.int64),))
    assert not flops.parts
    assert moved.of("table") == 2 * 4 * 24, "the rest of the table is not read"


def test_a_repeated_tensor_is_read_as_often_as_it_is_there() -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.expand(100, 4) + 1

    assert work_costs(symbolic_trace(Model()), (torch.zeros(1, 4),))[1].of("add") == 4 * (4 + 400)


class Products(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, groups=1)
        self.linear = nn.Linear(8, 16, bias=False)  # torch does not count an addition of its own

    def forward(self, x: Tensor) -> Tensor:
        rows = self.linear(self.conv(x).flatten(2).transpose(1, 2))
        return torch.bmm(rows, rows.transpose(1, 2)) @ rows


def test_the_products_of_a_model_add_up_to_what_torch_counts() -> None:
    gm, x = symbolic_trace(Products()), torch.zeros(2, 3, 9, 9)
    with FlopCounterMode(display=False) as known:
        gm(x)
    flops, _ = work_costs(gm, (x,))
    assert flops.of_all(flops.parts) == known.get_total_flops()


def test_attention_in_one_call_costs_its_two_products() -> None:
    class Model(nn.Module):
        def forward(self, q: Tensor) -> Tensor:
            return nn.functional.scaled_dot_product_attention(q, q, q)

    flops, _ = work_costs(symbolic_trace(Model()), (torch.zeros(2, 4, 16, 8),))
    assert flops.of("scaled_dot_product_attention") == 2 * (2 * 2 * 4 * 16 * 16 * 8)


def test_a_node_whose_work_depends_on_the_data_is_named_and_the_rest_is_counted() -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.relu() * x.sum().item()

    flops, _ = work_costs(symbolic_trace(Model()), (torch.ones(5),))
    assert flops.of("relu") == 5
    assert "not counted, as their work depends on the data: item, mul" in flops.note


def test_a_node_that_is_not_counted_is_named_for_bytes_too_where_all_others_have_a_formula() -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.relu() * x[0].item()

    flops, moved = work_costs(symbolic_trace(Model()), (torch.ones(5),))
    assert flops.note == moved.note == "not counted, as their work depends on the data: item, mul"


def test_counting_leaves_the_model_and_the_inputs_as_they_were() -> None:
    gm = symbolic_trace(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5))).train()
    x = torch.randn(2, 3, 5, 5)
    before, copy, drawn = fingerprint(gm), x.clone(), torch.get_rng_state()
    work_costs(gm, (x,))
    assert fingerprint(gm) == before
    assert torch.equal(x, copy)
    assert torch.equal(torch.get_rng_state(), drawn)
    assert all(type(tensor) in (nn.Parameter, Tensor) for tensor in (*gm.parameters(), *gm.buffers()))


# ---- the critical path


def drawn_graph(seed: int) -> tuple[GraphModule, Costs]:
    """A small graph at random, with a weight for each node; some nodes lead nowhere, some come from nowhere."""
    draw = random.Random(seed)
    graph = Graph()
    nodes = [graph.placeholder(name) for name in ("x", "y")[: draw.choice((1, 2))]]
    for _ in range(draw.randrange(1, 9)):
        if draw.random() < 0.15:
            nodes.append(graph.call_function(torch.ones, (2,)))
        else:
            nodes.append(graph.call_function(torch.add, (draw.choice(nodes), draw.choice(nodes))))
    graph.output(tuple(draw.choices(nodes, k=2)))
    parts = {node.name: frozenset({(node.name, draw.randrange(4))}) for node in graph.nodes}
    return GraphModule(nn.Module(), graph), Costs("FLOP", parts)


def every_path(start: Node) -> Iterator[tuple[str, ...]]:
    if start.op == "output":
        yield (start.name,)
    for user in start.users:
        for rest in every_path(user):
            yield (start.name, *rest)


@pytest.mark.parametrize("seed", range(60))
def test_no_path_from_an_input_to_the_output_is_heavier_than_the_critical_one(seed: int) -> None:
    gm, costs = drawn_graph(seed)
    found = critical_path(gm, costs)
    nodes = list(gm.graph.nodes)
    paths = [path for node in nodes if node.op == "placeholder" for path in every_path(node)]
    if not paths:
        paths = [path for node in nodes if not node.all_input_nodes for path in every_path(node)]
    assert found.nodes in paths
    assert found.cost == max(sum(map(costs.of, path)) for path in paths) == sum(map(costs.of, found.nodes))


def test_a_graph_that_returns_nothing_has_no_path() -> None:
    graph = Graph()
    graph.call_function(torch.relu, (graph.placeholder("x"),))
    found = critical_path(GraphModule(nn.Module(), graph), Costs("byte", {}))
    assert (found.nodes, found.share) == ((), 0.0)


def test_the_path_of_a_tower_goes_through_the_dear_branch_of_every_block() -> None:
    gm = graphs.tower()
    flops, _ = work_costs(gm, (torch.zeros(2, 3, 4),))
    path = critical_path(gm, flops)
    assert {"stem", "layer_0_dense", "layer_1_dense"} <= set(path.nodes)
    assert 0.5 < path.share < 1


def test_the_path_of_a_long_chain_is_the_chain() -> None:
    graph = Graph()
    node = graph.placeholder("x")
    for _ in range(5000):
        node = graph.call_function(torch.relu, (node,))
    graph.output(node)
    gm = GraphModule(nn.Module(), graph)
    assert len(critical_path(gm, Costs("FLOP", {})).nodes) == 5002
