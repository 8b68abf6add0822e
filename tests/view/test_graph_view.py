"""A graph module as plain data."""

from __future__ import annotations

import operator
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
import torch
from torch import nn

from fxopt.graph.nodes import TensorInfo
from fxopt.view import GraphView
from fxopt.view.kinds import KINDS, kind_of, kind_of_names
from tests.view import graphs


def test_every_node_and_every_data_edge_is_there_once_in_program_order() -> None:
    gm = graphs.tower()
    view = GraphView.of(gm)
    assert [node.name for node in view.nodes] == [node.name for node in gm.graph.nodes]
    expected = {(other.name, node.name) for node in gm.graph.nodes for other in node.all_input_nodes}
    assert set(view.edges) == expected
    assert len(view.edges) == len(expected)


def test_an_operand_read_twice_is_one_edge() -> None:
    class Square(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * x

    view = GraphView.of(torch.fx.symbolic_trace(Square()))
    assert view.edges == (("x", "mul"), ("mul", "output"))


def test_nodes_know_their_modules_kind_and_what_they_call() -> None:
    view = GraphView.of(graphs.tower())
    query = view.by_name["layer_0_query"]
    assert query.called == "Linear"
    assert query.kind == "linear"
    assert query.modules == (("layer.0", "Block"),)
    assert view.by_name["matmul"].kind == "attention"
    assert view.by_name["truediv"].target == "operator.truediv"
    assert {node.kind for node in view.nodes} <= set(KINDS)


def test_sizes_and_constants_are_set_aside_and_tensors_are_not() -> None:
    view = GraphView.of(graphs.tower())
    aside = {node.name: node.aside for node in view.nodes if node.aside}
    assert aside["scale"] == "constant"
    assert {name for name, why in aside.items() if why == "size"} == {
        "size", "size_1", "size_2", "size_3", "size_4", "mul_1",
    }  # fmt: skip


def test_arithmetic_that_mixes_a_tensor_in_is_not_set_aside() -> None:
    class Mean(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x / x.shape[0] + x.size(1) ** 2

    view = GraphView.of(torch.fx.symbolic_trace(Mean()))
    assert {node.target for node in view.nodes if node.aside} == {
        "getattr",
        "operator.getitem",
        ".size",
        "operator.pow",
    }


def test_shape_and_dtype_are_shown_where_they_are_known() -> None:
    gm = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(4, 2)))
    x, linear, _ = gm.graph.nodes
    x.meta["tensor_info"] = TensorInfo(("batch", 4), torch.float16)
    linear.meta["tensor_info"] = (TensorInfo((1,), torch.float32), [TensorInfo((2,), torch.float32)])
    view = GraphView.of(gm)
    assert (view.nodes[0].shape, view.nodes[0].dtype) == ("batch×4", "float16")
    assert (view.nodes[1].shape, view.nodes[1].dtype) == ("2 tensors", "")
    assert view.nodes[2].shape == ""


def test_a_view_is_frozen_plain_data() -> None:
    view = GraphView.of(graphs.tower())
    with pytest.raises(FrozenInstanceError):
        view.nodes = ()  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(view)) == view
    assert hash(view) == hash(GraphView.of(graphs.tower()))


def test_looking_at_a_graph_changes_nothing() -> None:
    gm = graphs.tower()
    before = gm.code, [dict(node.meta) for node in gm.graph.nodes], list(gm.state_dict())
    GraphView.of(gm)
    assert (gm.code, [dict(node.meta) for node in gm.graph.nodes], list(gm.state_dict())) == before


@pytest.mark.slow
def test_the_digest_is_the_same_in_another_process() -> None:
    program = "from tests.view import graphs; print(graphs.encoder(2).digest)"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == graphs.encoder(2).digest


def test_the_digest_tells_apart_what_looks_different() -> None:
    digests = [graphs.encoder(2).digest, graphs.encoder(3).digest, graphs.flat(5).digest, graphs.flat(5, seed=1).digest]
    assert len(set(digests)) == 4


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["Conv1D"], "linear"),
        (["Conv1d"], "conv"),
        (["MyLayer", "Linear"], "linear"),
        (["MultiheadAttention"], "attention"),
        (["scaled_dot_product_attention"], "attention"),
        (["BatchNorm2d"], "norm"),
        (["T5LayerNorm"], "norm"),
        (["NewGELUActivation"], "activation"),
        (["Embedding"], "embedding"),
        (["transpose"], "shape"),
        (["truediv"], "arithmetic"),
        (["Dropout"], "other"),
    ],
)
def test_operations_fall_into_the_family_that_people_expect(names: list[str], kind: str) -> None:
    assert kind_of_names(names) == kind


def test_a_long_chain_without_modules_is_cut_into_parts() -> None:
    class Chain(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(2600):
                x = torch.relu(x)
            return x

    view = GraphView.of(torch.fx.symbolic_trace(Chain()))
    assert len(view.module_classes) == 6
    assert max(len(node.modules) for node in view.nodes) == 1
    assert view.nodes[0].modules == view.nodes[-1].modules == ()


def test_index_arithmetic_at_the_top_level_folds_into_one_part() -> None:
    class Masked(nn.Module):
        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            for _ in range(9):
                mask = mask & mask
            return torch.relu(x) * mask

    gm = torch.fx.symbolic_trace(Masked())
    for node in gm.graph.nodes:
        node.meta["tensor_info"] = TensorInfo(
            (4,), torch.bool if "and" in node.name or "mask" in node.name else torch.float32
        )
    view = GraphView.of(gm)
    assert view.module_classes == {"[index arithmetic 1]": "part"}
    assert sum(bool(node.modules) for node in view.nodes) == 9


@pytest.mark.parametrize(
    ("spellings", "kind"),
    [
        ((torch.ops.aten.linear.default, torch.nn.functional.linear), "linear"),
        ((operator.matmul, "matmul", torch.ops.aten.mm.default), "attention"),
        ((operator.truediv, "div_", torch.ops.aten.div.Tensor, torch.true_divide), "arithmetic"),
        ((torch.ops.aten.bitwise_left_shift.Tensor, torch.atan), "arithmetic"),
        ((torch.ops.aten.t.default, "permute", torch.swapaxes, operator.getitem), "shape"),
        ((torch.nn.functional.relu, "relu_", torch.ops.aten.relu.default), "activation"),
    ],
)
def test_an_operator_has_one_kind_however_it_is_spelled(spellings: tuple[Any, ...], kind: str) -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    for target in spellings:
        op = "call_method" if isinstance(target, str) else "call_function"
        assert kind_of(graph.create_node(op, target, (x,))) == kind, target
