"""Marks are found in any picture of the graph, and none is lost in silence."""

from __future__ import annotations

import json

import pytest

from fxopt.view import Mark, resolve, styles_of, visible
from fxopt.view.marks import PALETTE, resolve_sides
from tests.view import graphs


def test_a_mark_on_a_shown_node_is_on_its_box() -> None:
    view = graphs.encoder(2)
    graph = visible(view, view.module_classes)
    marks = resolve({"matmul_0": [Mark("matched", 1)]}, graph, ["A", "B"])
    assert marks.boxes == {graph.owner["matmul_0"]: ((Mark("matched", 1), 1),)}
    assert not marks.unseen


def test_marks_on_folded_nodes_show_on_their_module_with_a_count() -> None:
    graph = visible(graphs.encoder(2), {"encoder"})
    parts = [f"encoder_layer_1_attention_self_{part}" for part in ("query", "key", "value")]
    marks = resolve({name: [Mark("applied", 0), Mark("created", 0)] for name in parts}, graph, ["MergeLinears"])
    index = graph.owner["@encoder.layer.1"]
    assert dict(marks.boxes[index]) == {Mark("applied", 0): 3, Mark("created", 0): 3}


def test_a_box_counts_the_sites_of_its_nodes() -> None:
    graph = visible(graphs.encoder(2), {"encoder"})
    parts = [f"encoder_layer_1_attention_self_{part}" for part in ("query", "key", "value")]
    of_sites = {name: [Mark("applied", 0, "one")] for name in parts} | {"matmul_1": [Mark("applied", 0, "other")]}
    index = graph.owner["@encoder.layer.1"]
    assert resolve(of_sites, graph).boxes == {index: ((Mark("applied", 0), 2),)}
    twice = resolve_sides([(of_sites, graph), (of_sites, visible(graphs.encoder(2), {"encoder"}))])
    assert twice.boxes == resolve(of_sites, graph).boxes
    assert resolve_sides([(of_sites, graph), ({"gone": [Mark("removed")]}, graph)]).unseen == ("gone",)


def test_a_mark_on_a_module_itself_can_be_given() -> None:
    graph = visible(graphs.encoder(2), {"encoder"})
    assert set(resolve({"@encoder.layer.0": [Mark("miss")]}, graph).boxes) == {graph.owner["@encoder.layer.0"]}


def test_marks_that_no_box_can_carry_are_named() -> None:
    graph = visible(graphs.encoder(2), ())
    marks = resolve({"gone": [Mark("miss")], "never": []}, graph)
    assert marks.unseen == ("gone",)
    assert marks.payload()["unseen"] == 1


def test_the_payload_is_json_and_names_every_pass_it_uses() -> None:
    graph = visible(graphs.encoder(2), {"encoder"})
    payload = resolve({"matmul_0": [Mark("matched", 2)]}, graph, ["A"]).payload()
    index = graph.owner["matmul_0"]
    assert json.loads(json.dumps(payload))["boxes"] == {str(index): [["matched", 2, 1]]}
    assert len(payload["styles"]) == 3


def test_an_unknown_kind_of_mark_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="matched, applied, miss"):
        Mark("great")  # type: ignore[arg-type]


def test_thirty_passes_have_letters_of_their_own_and_the_first_eight_colors_of_their_own() -> None:
    styles = styles_of([f"Pass{number}" for number in range(30)])
    assert len({style.letter for style in styles}) == 30
    assert {style.color for style in styles[:8]} == set(PALETTE)
