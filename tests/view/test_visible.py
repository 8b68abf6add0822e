"""Which boxes a picture has."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxopt.view import GraphView, NodeView, VisibleGraph, default_unfolded, visible
from fxopt.view.parts import with_parts
from tests.view import graphs

EVERY_ASIDE: frozenset[str] = frozenset()


def names(graph: VisibleGraph) -> list[str]:
    return [item.name for item in graph.items]


def is_acyclic(graph: VisibleGraph) -> bool:
    return all(source < target for source, target in graph.edges)


def test_a_folded_module_is_one_box_that_says_what_it_holds() -> None:
    graph = visible(graphs.encoder(12), {"encoder"})
    layer = graph.items[graph.owner["@encoder.layer.3"]]
    assert (layer.title, layer.subtitle) == ("layer.3 · BertLayer", "25 nodes · ×12")
    assert layer.path == "encoder.layer.3"
    assert layer.modules == (("encoder", "BertEncoder"),)
    assert len(layer.members) == 25


def test_the_count_of_equal_blocks_does_not_change_when_one_is_opened() -> None:
    graph = visible(graphs.encoder(12), {"encoder", "encoder.layer.0"})
    assert graph.items[graph.owner["@encoder.layer.3"]].subtitle == "25 nodes · ×12"


def test_a_module_opens_only_when_all_around_it_are_open() -> None:
    view = graphs.encoder(2)
    assert visible(view, {"encoder.layer.0"}).digest == visible(view, ()).digest


def test_folding_back_gives_the_same_picture_again() -> None:
    view = graphs.encoder(3)
    once = visible(view, {"encoder"})
    visible(view, {"encoder", "encoder.layer.1"})
    assert visible(view, {"encoder"}) == once


def test_inputs_and_outputs_are_always_shown() -> None:
    graph = visible(graphs.encoder(2), ())
    assert {"input_ids", "attention_mask", "output"} <= set(names(graph))


def test_constants_and_sizes_are_hidden_with_their_count() -> None:
    view = GraphView.of(graphs.tower())
    graph = visible(view, view.module_classes)
    assert "scale" not in names(graph)
    assert graph.caption == "showing 31 of 38 nodes, 1 constant hidden, 6 size computations hidden"
    everything = visible(view, view.module_classes, hide=EVERY_ASIDE)
    assert len(everything.items) == len(view.nodes)
    assert everything.caption == "showing 38 of 38 nodes"


def test_the_caption_accounts_for_every_node() -> None:
    view = GraphView.of(graphs.tower(3))
    graph = visible(view, {"layer"})
    shown = sum(not item.path for item in graph.items)
    folded = sum(len(item.members) for item in graph.items)
    assert shown + folded + sum(graph.hidden.values()) == graph.total == len(view.nodes)
    assert "folded into 3 modules" in graph.caption


def test_a_hidden_constant_of_a_folded_module_is_seen_on_that_module() -> None:
    nodes = (
        NodeView("x", "placeholder", "x", "io"),
        NodeView("weight", "get_attr", "block.weight", "constant", modules=(("block", "Block"),), aside="constant"),
        graphs.call("relu", ("block", "Block")),
    )
    view = GraphView(nodes, (("x", "relu"), ("weight", "relu")))
    assert visible(view, ()).find("weight") == visible(view, ()).find("@block")
    assert visible(view, {"block"}).find("weight") is None


def test_a_module_with_nothing_to_show_has_no_box() -> None:
    weight = NodeView("weight", "get_attr", "b.weight", "constant", modules=(("b", "B"),), aside="constant")
    assert names(visible(GraphView((weight,), ()), ())) == []


def test_data_that_runs_in_a_circle_through_one_module_parts_its_calls() -> None:
    shared = ("block", "Block")
    nodes = [NodeView("x", "placeholder", "x", "io")]
    nodes += [graphs.call("a", shared), graphs.call("between"), graphs.call("b", shared), graphs.call("after")]
    view = GraphView(tuple(nodes), tuple(pairwise(node.name for node in nodes)))
    graph = visible(view, ())
    assert names(graph) == ["x", "@block", "between", "@block~2", "after"]
    assert [item.path for item in graph.items if item.path] == ["block", "block"]
    assert is_acyclic(graph)


def test_a_module_that_others_interrupt_without_a_circle_stays_one_box() -> None:
    nodes = (graphs.call("a", ("m", "M")), graphs.call("elsewhere"), graphs.call("b", ("m", "M")))
    graph = visible(GraphView(nodes, (("a", "b"),)), ())
    assert names(graph) == ["@m", "elsewhere"]


def test_boxes_follow_the_data_even_where_folding_mixes_the_order() -> None:
    nodes = (graphs.call("a", ("m", "M")), graphs.call("first"), graphs.call("b", ("m", "M")))
    graph = visible(GraphView(nodes, (("first", "b"),)), ())
    assert names(graph) == ["first", "@m"]
    assert is_acyclic(graph)


@given(st.data())
def test_every_folding_of_every_graph_is_acyclic_and_loses_no_node(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 14))
    paths = [(), (("a", "A"),), (("a", "A"), ("a.b", "B")), (("c", "C"),)]
    nodes = tuple(graphs.call(f"n{i}", *data.draw(st.sampled_from(paths))) for i in range(count))
    pairs = [(i, j) for j in range(count) for i in range(j)]
    chosen = data.draw(st.lists(st.sampled_from(pairs), unique=True) if pairs else st.just([]))
    view = GraphView(nodes, tuple((f"n{i}", f"n{j}") for i, j in chosen))
    graph = visible(view, data.draw(st.sets(st.sampled_from(["a", "a.b", "c"]))))
    assert is_acyclic(graph)
    members = [name for item in graph.items for name in (item.members or (item.name,))]
    assert sorted(members) == sorted(node.name for node in nodes)
    drawn = {(graph.owner[f"n{i}"], graph.owner[f"n{j}"]) for i, j in chosen}
    assert set(graph.edges) == {pair for pair in drawn if pair[0] != pair[1]}


def test_a_graph_with_a_real_circle_is_drawn_all_the_same() -> None:
    nodes = (graphs.call("a"), graphs.call("b"), graphs.call("c"))
    graph = visible(GraphView(nodes, (("a", "b"), ("b", "a"), ("b", "c"))), ())
    assert sorted(names(graph)) == ["a", "b", "c"]


@pytest.mark.parametrize("layers", [2, 11])
def test_a_small_graph_opens_flat(layers: int) -> None:
    view = graphs.encoder(layers)
    graph = visible(view, default_unfolded(view))
    assert not any(item.path for item in graph.items)


@pytest.mark.parametrize("layers", [12, 24, 48])
def test_a_large_encoder_opens_to_its_layers(layers: int) -> None:
    view = graphs.encoder(layers)
    graph = visible(view, default_unfolded(view))
    assert {f"@encoder.layer.{number}" for number in range(layers)} <= set(names(graph))
    assert {"@embeddings", "@pooler"} <= set(names(graph))
    assert len(graph.items) <= layers + 8


def test_a_model_of_one_module_in_another_opens_to_something() -> None:
    nodes = [graphs.call(f"n{i}", ("m", "M"), ("m.n", "N"), (f"m.n.{i // 40}", "Layer")) for i in range(400)]
    view = GraphView(tuple(nodes), tuple(pairwise(node.name for node in nodes)))
    graph = visible(view, default_unfolded(view))
    assert len(graph.items) == 10


def test_a_module_called_in_a_loop_has_one_group_for_each_call() -> None:
    inner, outer = ("layer.norm", "Norm"), ("layer", "Layer")
    nodes = [NodeView("x", "placeholder", "x", "io")]
    for turn in range(3):
        nodes += [
            NodeView(f"dense_{turn}", "call_module", "layer.dense", "linear", "Linear", (outer,)),
            graphs.call(f"relu_{turn}", outer, inner),
        ]
    chain = tuple(pairwise(node.name for node in nodes))
    view = GraphView(tuple(with_parts(nodes)), chain)
    assert list(view.module_classes) == ["layer", "layer.norm", "layer#2", "layer.norm#2", "layer#3", "layer.norm#3"]
    assert {node.module for node in view.nodes} == {"", "layer", "layer.norm"}
    graph = visible(view, ())
    assert [item.title for item in graph.items] == ["x", "layer · Layer", "layer #2 · Layer", "layer #3 · Layer"]
    assert graph.items[1].subtitle == "2 nodes · ×3"
    assert len(visible(view, {"layer", "layer#2"}).items) == 6


def test_a_function_repeated_in_a_module_is_no_second_call() -> None:
    nodes = [graphs.call(f"relu_{turn}", ("m", "M")) for turn in range(4)]
    assert with_parts(nodes) == nodes


def test_titles_say_the_operation_and_keep_a_name_before_a_number() -> None:
    view = GraphView.of(graphs.tower())
    graph = visible(view, view.module_classes)
    titles = {item.name: (item.title, item.subtitle) for item in graph.items}
    assert titles["layer_0_query"] == ("query", "Linear")
    assert titles["matmul"] == ("matmul", "")
    assert titles["transpose"] == (".transpose", "")
    assert titles["x"] == ("x", "input")
