"""A model that is a graph module already is taken as it is, with shapes filled in."""

from __future__ import annotations

import torch
from torch import fx, nn

from fxopt.graph.nodes import info_of
from fxopt.tracing import capture, trace
from tests.tracing.zoo import Convolutions, Perceptron, build, image, vector


def test_it_is_returned_itself_with_shapes() -> None:
    given = fx.symbolic_trace(build(Convolutions))
    code = given.code
    gm = capture(given, (image(),))
    assert gm is given
    assert gm.code == code
    assert gm.meta["fxopt"].rung == "given"
    assert gm.meta["fxopt"].free == {"batch": "size 0 of x"}
    shapes = {node.name: info_of(node).shape for node in gm.graph.nodes if node.op == "call_module"}
    assert shapes["body_0"] == ("batch", 4, 6, 6)


def test_statistics_are_not_touched_by_the_propagation() -> None:
    model = build(Convolutions).train()
    capture(fx.symbolic_trace(model), (image(),))
    assert model.body[1].num_batches_tracked == 0


def test_an_exported_program_is_taken_too() -> None:
    exported = torch.export.export(build(Perceptron), (vector(),)).module()
    gm = capture(exported, (vector(),))
    assert gm is exported
    assert all(info_of(node) is not None for node in gm.graph.find_nodes(op="placeholder"))
    torch.testing.assert_close(gm(vector()), build(Perceptron)(vector()))


def test_what_was_captured_is_returned_unchanged() -> None:
    gm = capture(build(Perceptron), (vector(),))
    report = gm.meta["fxopt"]
    assert capture(gm, (vector(),)) is gm
    assert trace(gm) is gm
    assert gm.meta["fxopt"] is report


def test_where_propagation_stops_the_shapes_up_to_there_stay_and_the_reason_is_told() -> None:
    given = fx.Graph()
    x = given.placeholder("x")
    y = given.call_function(torch.relu, (x,))
    broken = given.call_function(torch.matmul, (y, y))
    given.output(broken)
    gm = capture(fx.GraphModule(nn.Module(), given), (vector(),))
    assert info_of(y).shape == (3, 8)
    assert info_of(broken) is None
    (note,) = gm.meta["fxopt"].notes
    assert note.startswith("shapes stop at relu: ")
