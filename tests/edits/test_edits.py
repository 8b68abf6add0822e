"""The effect of each edit, as code and in numbers."""

from __future__ import annotations

import operator
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.fx import GraphModule

import fxopt
from fxopt import Exactness
from fxopt.edits import Delete, Edit, Insert, Probe, ReplaceModule, Retarget, Rewire, SetArgument, SwapInputs
from fxopt.edits.place import constants_of, inputs_at, places_of, value_at, with_value
from fxopt.edits.targets import known_targets, resolved
from tests.edits.model import images, small

X = torch.linspace(-2, 3, 12).reshape(3, 4)
Y = torch.linspace(1, -4, 12).reshape(3, 4)


class Written(nn.Module):
    """A model whose forward is a function."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.function(x, y)


def graph(function: Callable[..., torch.Tensor]) -> GraphModule:
    return fxopt.capture(Written(function), (X, Y))


def edited(function: Callable[..., torch.Tensor], edit: Edit) -> torch.Tensor:
    gm = graph(function)
    assert [match.site for match in edit.scan(gm).matches] == [edit.node], str(edit.scan(gm))
    result: torch.Tensor = edit(gm)(X, Y)
    return result


@pytest.mark.parametrize(
    ("function", "edit", "expected"),
    [
        (lambda x, y: x / 3, SetArgument("truediv", "args[1]", 5), lambda x, y: x / 5),
        (lambda x, y: x.softmax(-1), SetArgument("softmax", "args[1]", 0), lambda x, y: x.softmax(0)),
        (lambda x, y: F.gelu(x, approximate="none"), SetArgument("gelu", "kwargs['approximate']", "tanh"),
         lambda x, y: F.gelu(x, approximate="tanh")),
        (lambda x, y: x[:, 1:3], SetArgument("getitem", "args[1][1].stop", 4), lambda x, y: x[:, 1:4]),
        (lambda x, y: x.to(torch.float64), SetArgument("to", "args[1]", torch.float16), lambda x, y: x.half()),
        (lambda x, y: x.sum(dim=(0, 1)), SetArgument("sum_1", "kwargs['dim']", (1,)), lambda x, y: x.sum(1)),
        (lambda x, y: torch.add(x, y), Retarget("add", "torch.sub"), lambda x, y: x - y),
        (lambda x, y: x + y, Retarget("add", "torch.maximum"), torch.maximum),
        (lambda x, y: F.relu(x), Retarget("relu", "F.gelu"), lambda x, y: F.gelu(x)),
        (lambda x, y: F.softmax(x, dim=-1), Retarget("softmax", "F.log_softmax"), lambda x, y: x.log_softmax(-1)),
        (lambda x, y: x.relu(), Retarget("relu", "tanh"), lambda x, y: x.tanh()),
        (lambda x, y: x.relu(), Retarget("relu", "torch.sigmoid"), lambda x, y: x.sigmoid()),
        (lambda x, y: x.mean(-1), Retarget("mean", "torch.Tensor.sum"), lambda x, y: x.sum(-1)),
        (lambda x, y: x - y, SwapInputs("sub", "args[0]", "args[1]"), lambda x, y: y - x),
        (lambda x, y: x / 2, SwapInputs("truediv", "args[0]", "args[1]"), lambda x, y: 2 / x),
        (lambda x, y: torch.sub(x, other=y), SwapInputs("sub", "args[0]", "kwargs['other']"), lambda x, y: y - x),
        (lambda x, y: x * 2 + x, Rewire("add", "args[1]", "y"), lambda x, y: x * 2 + y),
        (lambda x, y: torch.cat([x, y]), Rewire("cat", "args[0][1]", "x"), lambda x, y: torch.cat([x, x])),
        (lambda x, y: x * 2 + y, Rewire("output", "args[0]", "mul"), lambda x, y: x * 2),
        (lambda x, y: x.relu() + y, Delete("relu", "x"), lambda x, y: x + y),
        (lambda x, y: (x * y).relu(), Delete("mul", "y"), lambda x, y: y.relu()),
        (lambda x, y: x * 2 + x, Insert("x", "ReLU"), lambda x, y: x.relu() * 2 + x.relu()),
        (lambda x, y: x * 2 + x, Insert("x", "ReLU", "add"), lambda x, y: x * 2 + x.relu()),
        (lambda x, y: x * 2 + x, Insert("add", "Softmax(dim=0)"), lambda x, y: (x * 2 + x).softmax(0)),
    ],
)  # fmt: skip
def test_an_edit_computes_what_it_says(
    function: Callable[..., torch.Tensor], edit: Edit, expected: Callable[..., torch.Tensor]
) -> None:
    torch.testing.assert_close(edited(function, edit), expected(X, Y), rtol=0, atol=0)


def test_a_module_that_others_call_too_is_replaced_here_only() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act = nn.ReLU()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.act(self.act(x) - 1)

    gm = fxopt.capture(Twice(), (X,))
    ReplaceModule("act_1", "Tanh")(gm)
    torch.testing.assert_close(gm(X), torch.tanh(X.relu() - 1), rtol=0, atol=0)
    ReplaceModule("act", "Identity")(gm)
    torch.testing.assert_close(gm(X), torch.tanh(X - 1), rtol=0, atol=0)
    assert [name for name, _ in gm.named_children() if not name.startswith("_fxopt")] == ["act", "act_1"]


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (Insert("sub", "Identity"), Exactness.BITWISE),
        (Insert("sub", "Dropout(p=0.5)"), Exactness.BITWISE),
        (Insert("sub", "Probe"), Exactness.BITWISE),
        (Insert("sub", "ReLU"), Exactness.CHANGES),
        (Delete("drop", "sub"), Exactness.BITWISE),
        (ReplaceModule("drop", "Identity"), Exactness.BITWISE),
        (SetArgument("truediv", "args[1]", 2), Exactness.CHANGES),
    ],
    ids=lambda given: given.name,
)
def test_only_what_passes_its_input_through_is_said_to_keep_every_bit(edit: Edit, expected: Exactness) -> None:
    gm = small()
    (match,) = edit.scan(gm).matches
    assert edit.exactness(match) is expected
    before = gm(images())
    assert torch.equal(edit(gm)(images()), before) is (expected is Exactness.BITWISE)


def test_dropout_put_into_a_graph_that_trains_drops_and_is_said_to() -> None:
    gm = small().train()
    edit = Insert("sub", "Dropout(p=0.5)")
    (match,) = edit.scan(gm).matches
    assert edit.exactness(match) is Exactness.CHANGES
    assert edit(gm).get_submodule("dropout").training


def test_a_probe_notes_what_passes_through_it_and_travels_with_the_graph() -> None:
    gm = small()
    Insert("truediv", "Probe")(gm)
    probe = gm.get_submodule("probe")
    assert isinstance(probe, Probe)
    assert probe.seen is None
    gm(images())
    assert probe.seen is not None
    assert probe.seen.info.shape == (5, 6)
    assert probe.seen.smallest == 0.0
    assert "float32 5 x 6, from 0 to" in str(probe.seen)
    before = fxopt.fingerprint(gm)
    gm(images() * 2)
    assert fxopt.fingerprint(gm) == before, "what it saw is no part of the graph"


@pytest.mark.parametrize(
    ("numbers", "told"),
    [
        (torch.tensor([1.0, float("nan"), 3.0]), "float32 3, from 1 to 3, mean 2, 1 not finite"),
        (torch.tensor([float("inf")]), "float32 1, from nan to nan, mean nan, 1 not finite"),
        (torch.tensor([True, False]), "bool 2, from 0 to 1, mean 0.5"),
        (torch.empty(0), "None"),
        (torch.empty(2, device="meta"), "None"),
    ],
)
def test_a_probe_takes_whatever_comes(numbers: torch.Tensor, told: str) -> None:
    probe = Probe()
    assert probe(numbers) is numbers
    assert str(probe.seen) == told


def test_new_shapes_are_noted_with_their_free_sizes_and_told() -> None:
    gm = small()
    edit = ReplaceModule("last", "Identity")
    (match,) = edit.scan(gm).matches
    assert edit.explain(match) == (
        "let last call Identity instead of Linear(in_features=6, out_features=2, bias=True); "
        "last returns float32 batch x 6 from then on; 2 other nodes change in shape or dtype; "
        "the output of the model is float32 batch x 6 instead of "
        "float32 batch x 2"
    )
    edit(gm)
    assert [node.meta["tensor_info"].shape for node in gm.graph.nodes][-3:] == [("batch", 6)] * 3


def test_what_a_new_node_returns_is_noted_for_later_passes() -> None:
    gm = small()
    Insert("mean", "LayerNorm(4)", "b")(gm)
    (made,) = gm.graph.find_nodes(op="call_module", target="layer_norm")
    assert made.meta["tensor_info"].shape == ("batch", 4)


def test_an_inserted_module_lies_in_the_module_of_its_source() -> None:
    model = nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), nn.Linear(4, 4))
    gm = fxopt.capture(model, (X,))
    Insert("_0_0", "Tanh")(gm)
    assert [node.target for node in gm.graph.nodes] == ["input", "0.0", "0.tanh", "0.1", "1", "output"]


def test_places_are_read_and_set_as_python_would() -> None:
    gm = graph(lambda x, y: torch.cat([x[:, 1:3], y], dim=-1).view(3, -1).clamp(min=-1.0))
    nodes = {node.name: node for node in gm.graph.nodes}
    assert dict(constants_of(nodes["cat"])) == {"kwargs['dim']": -1}
    assert [(at, one.name) for at, one in inputs_at(nodes["cat"])] == [("args[0][0]", "getitem"), ("args[0][1]", "y")]
    for node in gm.graph.nodes:
        for at, value in places_of(node):
            assert value_at(node, at) is value or value_at(node, at) == value
            assert with_value(node, {at: value}) == (node.args, node.kwargs)
    args, _ = with_value(nodes["getitem"], {"args[1][1].stop": 2})
    assert args[1] == (slice(None), slice(1, 2))


def test_every_target_is_a_function_of_tensors_in_one_of_four_places() -> None:
    places = {"torch": torch, "F": F, "torch.Tensor": torch.Tensor, "operator": operator}
    assert len(known_targets()) > 500
    for name, target in known_targets().items():
        place, _, word = name.rpartition(".")
        called = getattr(torch.Tensor, str(target.called)) if target.op == "call_method" else target.called
        assert getattr(places[place], word) is called
    for wrong in (
        "torch.load", "torch.save", "torch.set_default_dtype", "torch.hub.load", "torch.Tensor.backward",
        "builtins.eval", "operator.methodcaller", "eval", "__class__", "torch.Tensor.__reduce__",
    ):  # fmt: skip
        assert resolved(wrong) is None, wrong


def test_signatures_tell_values_apart_and_are_those_of_equal_edits() -> None:
    edits = [SetArgument("a", "args[0]", value) for value in (1, 1.0, True, "1", (1,), None)]
    edits += [edits[0].another_turn(), SetArgument("b", "args[0]", 1), Delete("a"), Delete("a", "b")]  # type: ignore[list-item]
    assert len({edit.signature for edit in edits}) == len({edit.name for edit in edits}) == len(edits)
    assert SetArgument("a", "args[0]", 1).signature == edits[0].signature


def test_an_exported_graph_can_be_edited_too() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x).relu() / 3

    gm = fxopt.capture(torch.export.export(Net().eval(), (X,)).module(), (X,))
    before, code = gm(X), gm.code
    SetArgument("div", "args[1]", 6)(gm)
    torch.testing.assert_close(gm(X), before / 2)
    SetArgument("div", "args[1]", 6)(gm, reverse=True)
    assert gm.code == code
    (miss,) = Retarget("relu", "torch.tanh").scan(gm).misses
    assert "are unknown" in miss.reason
