"""The places in which a node reads others stand beside the edges, where they matter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fxopt
from fxopt.edits import SwapInputs
from fxopt.view import GraphView, layout, layout_both, to_dot, visible
from fxopt.view.comparison import Comparison
from tests.view import graphs

Reads = dict[tuple[str, str], str]


def traced(function: Callable[..., Any]) -> torch.fx.GraphModule:
    return torch.fx.GraphModule(nn.Module(), torch.fx.Tracer().trace(function))


def reads_of(gm: torch.fx.GraphModule, hide: Any = ("constant", "size")) -> Reads:
    graph = visible(GraphView.of(gm), (), hide)
    return {(graph.items[source].name, graph.items[target].name): text for source, target, text in graph.reads}


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda a, b: a - b, {("a", "sub"): "1", ("b", "sub"): "2"}),
        (lambda a, b: b - a, {("b", "sub"): "1", ("a", "sub"): "2"}),
        (lambda a, b: a + b, {}),
        (lambda a, b: a.mul(b), {}),
        (lambda a, b: torch.add(a, b, alpha=2), {("a", "add"): "1", ("b", "add"): "2"}),
        (lambda a, b: a.add_(b), {("a", "add_"): "1", ("b", "add_"): "2"}),
        (lambda y: y * y, {("y", "mul"): "×2"}),
        (lambda y: y - y, {("y", "sub"): "×2"}),
        (lambda y: torch.cat([y, y]), {("y", "cat"): "×2"}),
        (lambda y, z: torch.cat([y, z, y]), {("y", "cat"): "1, 3", ("z", "cat"): "2"}),
        (lambda y, z: torch.stack([y, y, y, y, z]), {("y", "stack"): "1–4", ("z", "stack"): "5"}),
        (lambda y: 1 - y, {("y", "sub"): "2"}),
        (lambda y: y - 1, {}),
        (lambda y: 2 * y, {}),
        (lambda y: 2**y, {("y", "pow_1"): "2"}),
        (lambda y: y**2, {}),
        (lambda y: torch.relu(y), {}),
        (lambda y, m: y.masked_fill(m, -1.0), {("y", "masked_fill"): "1", ("m", "masked_fill"): "2"}),
        (lambda a, b: (b, a), {("b", "output"): "1", ("a", "output"): "2"}),
    ],
)
def test_order_and_repeats_of_operands_are_told(function: Callable[..., Any], expected: Reads) -> None:
    assert reads_of(traced(function)) == expected


def test_operands_that_are_left_out_keep_their_places() -> None:
    class Weighted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.bias = nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2))

        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.linear(self.weight - x, self.weight, self.bias)

    gm = torch.fx.symbolic_trace(Weighted())
    assert reads_of(gm) == {("x", "sub"): "2"}
    shown = reads_of(gm, hide=())
    assert (shown["weight", "sub"], shown["sub", "linear"], shown["weight", "linear"]) == ("1", "1", "2")


def test_a_folded_module_tells_no_operands_and_an_open_one_does() -> None:
    view = GraphView.of(graphs.tower(1))
    assert not any("layer" in visible(view).items[target].path for _, target, _ in visible(view).reads)
    opened = visible(view, ("layer.0",))
    texts = {text for source, target, text in opened.reads if opened.items[target].title == "matmul"}
    assert texts == {"1", "2"}


def test_pictures_that_differ_in_the_order_alone_are_two_and_the_union_tells_both() -> None:
    gm = fxopt.capture(traced(lambda a, b: (a - b) + a), (torch.ones(2), torch.ones(2)))
    before = visible(GraphView.of(gm))
    SwapInputs("sub", "args[0]", "args[1]")(gm)
    after = visible(GraphView.of(gm))
    assert before.edges == after.edges
    assert before.digest != after.digest
    assert layout(before).id != layout(after).id
    both = Comparison.of(before, after)
    assert not both.is_same
    texts = [text for _, _, text in both.graph.reads]
    assert texts == ["1→2", "2→1"]
    picture = layout_both(layout(before), after)
    assert picture.payload()["sides"]["reread"] == [0, 2, "1", "2", 1, 2, "2", "1"]
    assert layout_both(layout(before), before) == layout(before)


def test_dot_tells_the_operands_at_the_heads() -> None:
    text = to_dot(GraphView.of(traced(lambda a, b: a - b)))
    assert text.count("headlabel=") == 2
    assert "headlabel" not in to_dot(GraphView.of(traced(lambda a, b: a + b)))
