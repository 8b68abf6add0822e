"""The modules to open so that a node is seen."""

from __future__ import annotations

import pytest

from fxopt.view import GraphView, visible
from fxopt.view.revealing import Opening, modules_hiding, opening_for
from tests.view import graphs


@pytest.mark.parametrize("view", [graphs.encoder(2), GraphView.of(graphs.tower())], ids=["encoder", "tower"])
def test_with_the_modules_around_it_open_every_node_that_a_picture_has_is_a_box(view: GraphView) -> None:
    for node in view.nodes:
        graph = visible(view, modules_hiding(view, node.name))
        if node.aside:
            assert not modules_hiding(view, node.name)
        else:
            assert graph.items[graph.owner[node.name]].name == node.name


def test_groups_are_opened_as_long_as_the_picture_has_room() -> None:
    view = graphs.encoder(12)
    first, last = ([f"matmul_{number}"] for number in (0, 11))
    whole = opening_for([view], [first, last], ["encoder"])
    assert whole.left == 0
    assert {"encoder.layer.0.attention.self", "encoder.layer.11"} <= whole.modules
    shown = len(visible(view, {"encoder", *whole.modules}).items)
    assert opening_for([view], [first, last], ["encoder"], most=shown) == whole
    tight = opening_for([view], [first, last], ["encoder"], most=shown - 1)
    assert tight.left == 1
    assert tight.modules == modules_hiding(view, "matmul_0") - {"encoder"}


def test_what_is_open_already_takes_no_room() -> None:
    view = graphs.encoder(2)
    assert opening_for([view], [["matmul_0"]], view.module_classes, most=1) == Opening(frozenset())
