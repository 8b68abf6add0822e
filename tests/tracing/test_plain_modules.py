"""Plain modules: signatures, structures of inputs and outputs, in-place operations, unusual names."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fxopt.graph.nodes import info_of, source_of
from fxopt.tracing import InputError, InputSizeError, capture, rungs
from fxopt.tracing.structure import dismantle, same_structure
from tests.quick import one_of_four, third
from tests.tracing.zoo import (
    PLAIN,
    CalledTwice,
    ClashingNames,
    DecidesBySize,
    Example,
    KeywordOnly,
    NestedInput,
    NoneInput,
    Perceptron,
    SameInBatchOfOne,
    WritesInPlace,
    build,
    leaf_calls,
    vector,
)


@torch.no_grad()
def assert_same_answer(model: nn.Module, gm: nn.Module, example: Example, batch: int) -> None:
    (x, xs), (y, ys) = [dismantle(call(*args, **kwargs)) for call in (model, gm) for args, kwargs in [example(batch)]]
    assert same_structure(x, y)
    for expected, replayed in zip(xs, ys, strict=True):
        torch.testing.assert_close(replayed, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("name", "rung"), one_of_four(PLAIN, ["as it comes", "recorded", "fixed"]))
def test_the_graph_answers_as_the_model_does(name: str, rung: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, example = PLAIN[name]
    model = build(kind)
    if rung != "as it comes":
        monkeypatch.setattr(rungs, "is_plain", lambda model: False)
    args, kwargs = example(3)
    gm = capture(model, args, kwargs, dynamic="none" if rung == "fixed" else "auto")
    assert_same_answer(model, gm, example, 3)
    assert_same_answer(model, copy.deepcopy(gm), example, 3)
    if rung != "fixed":
        assert "batch" in gm.meta["fxopt"].free
        for batch in (1, 2, 5):
            assert_same_answer(model, gm, example, batch)
    else:
        more_args, more_kwargs = example(5)
        with pytest.raises(InputSizeError, match=r"== 3, here size 0 of .* is 5"):
            gm(*more_args, **more_kwargs)


@pytest.mark.parametrize("name", third(PLAIN))
def test_every_call_of_a_layer_is_a_node(name: str) -> None:
    kind, example = PLAIN[name]
    model = build(kind)
    args, kwargs = example(3)
    gm = capture(model, args, kwargs)
    renamed = {"graph_": "graph", "blocks.for_": "blocks.for"}
    called = [str(node.target) for node in gm.graph.nodes if node.op == "call_module"]
    assert [renamed.get(target, target) for target in called] == leaf_calls(model, *args, **kwargs)


def test_plain_modules_are_traced_by_torch_fx_with_all_sizes_free() -> None:
    gm = capture(build(Perceptron), (vector(),))
    assert gm.meta["fxopt"].rung == "plain"
    assert [node.name for node in gm.graph.nodes] == ["x", "first", "relu", "second", "truediv", "output"]
    assert str(info_of(next(iter(gm.graph.nodes)))) == "float32 batch x 8"


def test_nodes_of_a_plain_trace_know_their_line() -> None:
    gm = capture(build(Perceptron), (vector(),))
    lines = {node.name: source_of(node) for node in gm.graph.nodes if node.op.startswith("call")}
    assert all(line is not None and line.file.endswith("zoo.py") for line in lines.values())
    assert "torch.relu(self.first(x))" in lines["first"].text


def test_decisions_by_size_need_the_recording_and_are_checked() -> None:
    gm = capture(build(DecidesBySize), (torch.randn(2, 6, 8),))
    report = gm.meta["fxopt"]
    assert report.rung == "symbolic"
    assert set(report.free) == {"batch", "sequence"}
    asked = {fixed.condition: fixed.line for fixed in report.fixed}
    assert asked["sequence > 4"].text == "if sequence > 4:"
    gm(torch.randn(3, 5, 8))
    with pytest.raises(InputSizeError, match=r"with sequence > 4, here size 1 of x is 3; .* asked at zoo\.py:\d+"):
        gm(torch.randn(2, 3, 8))


def test_expressions_of_sizes_are_written_in_readable_names() -> None:
    gm = capture(build(DecidesBySize), (torch.randn(2, 6, 8),))
    *_, view, _ = gm.graph.nodes
    assert info_of(view).shape == ("batch", "16*sequence")


def test_a_module_called_twice_gives_two_nodes() -> None:
    gm = capture(build(CalledTwice), (vector(),))
    assert [str(node.target) for node in gm.graph.nodes if node.op == "call_module"] == [
        "first",
        "second",
        "first",
        "second",
    ]


def test_operations_in_place_stay_though_nothing_reads_their_result() -> None:
    gm = capture(build(WritesInPlace), (vector(),))
    written = [node.name for node in gm.graph.nodes if not node.users and node.op != "output"]
    assert written == ["iadd", "setitem"] or written == ["add_", "setitem"]


class WritesIntoItsInput(Perceptron):
    def forward(self, x):
        y = x * 2
        x.zero_()
        return y


def test_writing_into_an_input_stays_though_the_output_does_not_need_it() -> None:
    gm = capture(build(WritesIntoItsInput), (vector(),))
    x = vector()
    gm(x)
    assert not x.any()


class AddsToItsInput(Perceptron):
    def forward(self, x):
        x += 1
        return self.first(x)


def test_adding_to_an_input_is_not_left_to_torch_fx_which_would_not_write() -> None:
    gm = capture(build(AddsToItsInput), (vector(),))
    x = vector()
    gm(x)
    torch.testing.assert_close(x, vector() + 1)
    assert "leaves other values in an input" in gm.meta["fxopt"].tried[0].reason


class Remembers(Perceptron):
    def forward(self, x):
        self.last = x
        return self.first(x)


def test_attributes_that_only_the_model_sets_are_told() -> None:
    gm = capture(build(Remembers), (vector(),))
    assert "forward assigns to Remembers.last; the graph does not" in gm.meta["fxopt"].notes


class HidesASize(Perceptron):
    """Decides by a size where the recording does not see it."""

    def forward(self, x):
        if type(x) is torch.Tensor and x.dim() == 2 and x.shape[0] > 3:
            return self.first(x) * 2
        return self.first(x)


def test_a_graph_that_is_wrong_at_another_size_is_not_handed_out_for_it() -> None:
    gm = capture(build(HidesASize), (vector(3),))
    report = gm.meta["fxopt"]
    assert report.rung == "fixed"
    assert "at batch 4, output 0 differs" in report.tried[-1].reason
    torch.testing.assert_close(gm(vector(3)), build(HidesASize)(vector(3)))


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count += 1
        return x * self.count


def test_a_buffer_that_forward_counts_up_is_counted_up_by_the_graph() -> None:
    model, twin = build(Counts), build(Counts)
    gm = capture(model, (vector(),))
    assert model.count == 0
    for _ in range(3):
        torch.testing.assert_close(gm(vector()), twin(vector()))
    assert model.count == 3


def test_a_batch_of_one_in_the_example_leaves_the_batch_free() -> None:
    for model in (build(Perceptron), build(WritesInPlace)):
        gm = capture(model, (vector(1),))
        for batch in (1, 4):
            torch.testing.assert_close(gm(vector(batch)), model(vector(batch)))


def test_a_model_that_treats_a_batch_of_one_otherwise_is_not_captured_for_it() -> None:
    model = build(SameInBatchOfOne)
    gm = capture(model, (vector(3),))
    torch.testing.assert_close(gm(vector(5)), model(vector(5)))
    with pytest.raises(InputSizeError, match="batch != 1, here size 0 of x is 1"):
        gm(vector(1))
    alone = capture(model, (vector(1),))
    torch.testing.assert_close(alone(vector(1)), model(vector(1)))
    with pytest.raises(InputSizeError, match="size_of_x_0 == 1, here size 0 of x is 5"):
        alone(vector(5))


def test_names_that_python_or_graph_modules_use_are_changed_and_told() -> None:
    gm = capture(build(ClashingNames), (vector(),))
    assert "graph is called graph_ in the graph" in gm.meta["fxopt"].notes
    targets = [str(node.target) for node in gm.graph.nodes if node.op == "call_module"]
    assert targets == ["lambda_", "blocks.for_", "blocks.1", "graph_"]


def test_an_input_that_is_no_tensor_must_have_its_value() -> None:
    gm = capture(build(KeywordOnly), kwargs={"x": vector(), "scale": 0.5})
    gm(x=vector(2))
    with pytest.raises(InputError, match=r"captured with scale == 0\.5, here it is 2\.0"):
        gm(x=vector(), scale=2.0)


def test_a_tensor_where_the_example_had_none_is_refused() -> None:
    gm = capture(build(NoneInput), (vector(), None, vector()))
    with pytest.raises(InputError, match="captured with mask == None"):
        gm(vector(), vector(), vector())
    with pytest.raises(InputError, match="captured with a tensor as y, here it is None"):
        gm(vector(), None, None)


def test_tensors_in_containers_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rungs, "is_plain", lambda model: False)
    model = build(NestedInput)
    gm = capture(model, ({"x": vector(), "more": [vector()]},), dynamic="none")
    with pytest.raises(InputSizeError, match=r"here size 0 of inputs\['more'\]\[0\] is 4"):
        gm({"x": vector(), "more": [vector(4)]})
    with pytest.raises(InputSizeError, match=r"inputs\['more'\] has 1 parts, here it has 2"):
        gm({"x": vector(), "more": [vector(), vector()]})
    with pytest.raises(InputSizeError, match=r"inputs\['x'\] has 2 dimensions"):
        gm({"x": vector()[0], "more": [vector()]})


class Constants(nn.Module):
    """Tensors that are no parameters: a plain attribute, a closure, a buffer left out of the state."""

    table = torch.arange(8.0)

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.full((8,), 3.0)
        self.register_buffer("kept", torch.ones(8))
        self.register_buffer("temporary", torch.ones(8), persistent=False)

    def forward(self, x):
        return x * self.scale + self.table + self.kept + self.temporary


@pytest.mark.parametrize("plain", [True, False])
def test_constants_stay_out_of_the_state_dict(plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rungs, "is_plain", lambda model: plain)
    model = build(Constants)
    gm = capture(model, (vector(),))
    torch.testing.assert_close(gm(vector()), model(vector()))
    assert gm.state_dict().keys() == model.state_dict().keys() == {"kept"}
    assert copy.deepcopy(gm).state_dict().keys() == {"kept"}


class Named(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = build(Perceptron)
        self.norm = nn.LayerNorm(8)

    def forward(self, x):
        return self.norm(self.inner(x) + x)


@pytest.mark.parametrize("leaf", [Perceptron, "inner", ["inner"], (Perceptron,), lambda module, path: path == "inner"])
@pytest.mark.parametrize("plain", [True, False])
def test_leaves_can_be_named(leaf: Any, plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rungs, "is_plain", lambda model: plain)
    gm = capture(Named().eval(), (vector(),), leaf=leaf)
    assert [str(node.target) for node in gm.graph.nodes if node.op == "call_module"] == ["inner", "norm"]


def test_the_mode_is_the_models() -> None:
    training = Named().train()
    training.inner.eval()
    gm = capture(training, (vector(),), leaf="inner")
    assert gm.training
    assert not gm.inner.training
    assert not capture(Named().eval(), (vector(),)).training


class Drops(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        return x + self.dropout(F.dropout(x, 0.5, self.training))


@torch.no_grad()
@pytest.mark.parametrize("training", [True, False])
def test_dropout_is_wired_as_it_runs_in_either_mode(training: bool) -> None:
    model = Drops().train(training)
    gm = capture(model, (vector(),))
    torch.manual_seed(1)
    expected = model(vector())
    torch.manual_seed(1)
    torch.testing.assert_close(gm(vector()), expected)
    residual = next(node for node in gm.graph.nodes if node.name == "add")
    assert [node.name for node in residual.all_input_nodes] == ["x", "dropout_1"]


class ReadsSizes(nn.Module):
    def forward(self, x, index):
        positions = torch.arange(x.shape[1], device=x.device)
        picked = x[:, index[index > 0]]
        return picked.sum(1) + positions.sum(), torch.tensor([x.shape[0], x.shape[1]])


def test_sizes_that_are_data_become_nodes() -> None:
    model = ReadsSizes()
    gm = capture(model, (torch.randn(2, 6, 3), torch.tensor([0, 1, 2])))
    for batch, sequence, index in [(2, 6, [0, 1, 2]), (3, 9, [0, 8, 7, 6])]:
        x = torch.randn(batch, sequence, 3)
        for expected, replayed in zip(model(x, torch.tensor(index)), gm(x, torch.tensor(index)), strict=True):
            torch.testing.assert_close(replayed, expected)


def test_a_plain_graph_survives_pickling() -> None:
    x = torch.rand(2, 3)
    gm = capture(nn.Sequential(nn.Linear(3, 3), nn.ReLU()).eval(), (x,))
    assert gm.meta["fxopt"].rung == "plain"
    assert gm.graph.output_node().type is None
    again = pickle.loads(pickle.dumps(gm))
    assert again.code == gm.code
    assert torch.equal(again(x), gm(x))
