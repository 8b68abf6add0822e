"""Each reason for which an edit is refused, and its message."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fxopt
from fxopt.core import GraphIndex
from fxopt.edits import (
    Delete,
    Edit,
    EditError,
    Insert,
    ReplaceModule,
    Retarget,
    Rewire,
    SetArgument,
    SwapInputs,
)
from tests.edits.model import images, small

REFUSALS = (
    (SetArgument("nowhere", "args[0]", 1), "there is no node nowhere in the graph as it is"),
    (SetArgument("images", "args[0]", 1), "images is an input of the model"),
    (SetArgument("output", "args[0]", 1), "output is the output of the model"),
    (SetArgument("truediv", "args[1]", 3), "args[1] of truediv is 3 already"),
    (SetArgument("truediv", "args[5]", 3), "truediv has nothing at args[5]; it has args[0], args[1]"),
    (SetArgument("truediv", "first", 3), "a place in a call is written args[1] or kwargs['dim'], and this is 'first'"),
    (SetArgument("truediv", "args[0]", 3), "args[0] of truediv is relu, the result of a node"),
    (SetArgument("truediv", "args[1]", {1, 2}), "and has to be a constant"),
    (SetArgument("truediv", "args[1]", "three"), "truediv would fail: "),
    (SetArgument("softmax", "args[1]", 7), "softmax would fail: Dimension out of range"),
    (SetArgument("flatten", "args[1]", 1), "a would fail: "),
    (Retarget("conv", "F.relu"), "conv calls no function or method"),
    (Retarget("relu", "os.system"), "os.system is not a function of tensors in torch"),
    (Retarget("relu", "torch.load"), "torch.load is not a function of tensors in torch"),
    (Retarget("relu", "torch.nn.functional.os.system"), "is not a function of tensors"),
    (Retarget("relu", "F.relu"), "relu calls F.relu already"),
    (Retarget("tanh", "torch.relu_"), "is not a function of tensors"),
    (Retarget("tanh", "relu_"), "tanh makes a new tensor, and torch.Tensor.relu_ writes in place"),
    (Retarget("softmax", "tanh"), "softmax gives dim as argument 1, and torch.Tensor.tanh takes only input"),
    (Retarget("softmax", "transpose"), "softmax gives dim as argument 1, and torch.Tensor.transpose takes dim0 there"),
    (Retarget("relu", "torch.add"), "torch.add needs other, which relu does not give"),
    (Retarget("sub", "operator.and_"), "sub would fail: "),
    (Rewire("sub", "args[1]", "tanh"), "args[1] of sub is tanh already"),
    (Rewire("sub", "args[1]", "last"), "last is computed from sub, so this would be a cycle"),
    (Rewire("sub", "args[1]", "sub"), "sub is computed from sub, so this would be a cycle"),
    (Rewire("a", "args[0]", "b"), "b comes later in the graph than a"),
    (Rewire("sub", "args[1]", "output"), "output is the output of the model"),
    (Rewire("sub", "args[1]", "nowhere"), "there is no node nowhere"),
    (Rewire("sub", "args[7]", "a"), "sub has nothing at args[7]"),
    (Rewire("truediv", "args[1]", "a"), "args[1] of truediv is the constant 3"),
    (Rewire("last", "args[0]", "mean"), "last would fail: "),
    (SwapInputs("sub", "args[0]", "args[0]"), "args[0] and args[0] of sub are the same"),
    (SwapInputs("sub", "args[0]", "args[7]"), "sub has nothing at args[7]"),
    (SwapInputs("relu", "args[0]", "kwargs['inplace']"), "relu would fail: "),
    (Delete("images"), "images is an input of the model"),
    (Delete("output"), "output is the output of the model"),
    (Delete("tanh"), "tanh is read by sub"),
    (Delete("tanh", "a"), "a is not an input of tanh"),
    (Delete("flatten", "act"), "a would fail: "),
    (Insert("sub", "Linear(6, 6)"), "Linear is not in the catalog"),
    (Insert("sub", "__import__('os').system('ls')"), "is not written like a module"),
    (Insert("sub", "Dropout(p=2)"), "Dropout(p=2) cannot be made: dropout probability has to be between 0 and 1"),
    (Insert("sub", "Dropout(0.1, True)"), "Dropout cannot be given so many values"),
    (Insert("sub", "ReLU(inplace=True)"), "ReLU cannot be given inplace"),
    (Insert("sub", "Dropout(p=open('x'))"), "is not written like a module"),
    (Insert("sub", "ReLU", "last"), "last does not read sub"),
    (Insert("output", "ReLU"), "output is the output of the model"),
    (Insert("sub", "MaxPool2d(kernel_size=2)"), "the max_pool2d would fail: "),
    (ReplaceModule("relu", "GELU"), "relu calls F.relu, which is not a module"),
    (ReplaceModule("act", "ReLU"), "act is a ReLU already"),
    (ReplaceModule("conv", "Linear(1, 1)"), "Linear is not in the catalog"),
    (ReplaceModule("a", "Identity"), "sub would fail: "),
)  # fmt: skip


@pytest.mark.parametrize(("edit", "reason"), REFUSALS, ids=lambda given: given.name if isinstance(given, Edit) else "")
def test_an_edit_that_does_not_hold_is_refused_with_the_reason_and_a_remedy(edit: Edit, reason: str) -> None:
    gm = small()
    with pytest.raises(EditError) as refused:
        edit.check(GraphIndex(gm))
    assert reason in str(refused.value)
    assert refused.value.unmet.remedy
    scan = edit.scan(gm)
    assert not scan.matches
    assert [miss.reason for miss in scan.misses] in ([refused.value.reason], [])
    before = fxopt.fingerprint(gm)
    edit.apply(GraphIndex(gm))
    assert fxopt.fingerprint(gm) == before


def test_a_refusal_shows_what_the_node_would_get_against_what_it_gets() -> None:
    with pytest.raises(EditError) as refused:
        Rewire("last", "args[0]", "mean").check(GraphIndex(small()))
    assert refused.value.actual == "float32 5 x 4"
    assert refused.value.needed == "float32 5 x 6"


def test_without_shapes_nothing_can_be_checked_so_nothing_is_edited() -> None:
    gm = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    (miss,) = ReplaceModule("_1", "Tanh").scan(gm).misses
    assert "the shape of the input input_1 is unknown, so the edit cannot be checked" in miss.reason
    assert "fxopt.capture" in miss.remedy


def test_a_result_that_would_fill_the_memory_is_refused() -> None:
    class Repeats(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.repeat(2, 3)

    gm = fxopt.capture(Repeats(), (torch.rand(4, 5),))
    (miss,) = SetArgument("repeat", "args[2]", 10**9).scan(gm).misses
    assert "repeat would return 40,000,000,000 numbers" in miss.reason


def test_a_call_under_autocast_is_left_alone() -> None:
    class Region(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                return torch.relu(x)

    gm = fxopt.capture(Region(), (torch.rand(4, 5),), verify=False)
    name = next(node.name for node in gm.graph.nodes if node.name.startswith("relu"))
    (miss,) = Retarget(name, "torch.tanh").scan(gm).misses
    assert "runs under autocast" in miss.reason


def test_outputs_keep_their_shape_where_that_is_asked_for() -> None:
    gm = small()
    assert SetArgument("mean", "args[1]", -1).scan(gm).misses
    edit = ReplaceModule("last", "Identity", keep_outputs=True)
    assert "the output of the model would be float32 batch x 6 instead of" in edit.scan(gm).misses[0].reason
    assert ReplaceModule("act", "Tanh", keep_outputs=True).scan(gm).matches


def test_a_private_attribute_is_out_of_reach() -> None:
    gm = fxopt.capture(torch.fx.symbolic_trace(_Shapes()), (torch.rand(2, 3),))
    node = next(node for node in gm.graph.nodes if node.target is getattr)
    (miss,) = SetArgument(node.name, "args[1]", "__class__").scan(gm).misses
    assert "__class__ is a private attribute" in miss.reason


class _Shapes(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(x.shape)


def test_a_size_that_is_the_example_s_by_chance_alone_is_noted_as_fixed() -> None:
    class Rows(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[:9]

    gm = fxopt.capture(Rows(), (torch.rand(4, 3),), dynamic={"x": [0]})
    edit = SetArgument("getitem", "args[1].stop", 4)
    edit(gm)
    assert gm.graph.find_nodes(op="output")[0].meta["tensor_info"].shape == (4, 3)


def test_what_holds_at_the_example_alone_says_so() -> None:
    class Flat(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.reshape(-1, 6) * 2

    gm = fxopt.capture(Flat(), (torch.rand(4, 6),), dynamic={"x": [0]})
    (match,) = SetArgument("reshape", "args[1]", 4).scan(gm).matches
    assert SetArgument("reshape", "args[1]", 4).explain(match) == (
        "set args[1] of reshape to 4 instead of -1; it holds at batch 4 and not at larger sizes"
    )


def test_no_code_of_the_model_runs_on_its_numbers_while_an_edit_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    gm = small()
    real: list[str] = []
    forward = nn.Linear.forward

    def watched(self: nn.Linear, x: torch.Tensor) -> torch.Tensor:
        if type(x) is torch.Tensor:
            real.append("called with numbers")
        return forward(self, x)

    monkeypatch.setattr(nn.Linear, "forward", watched)
    for edit in (SetArgument("mean", "args[0]", -2), Retarget("sub", "operator.add"), Delete("drop", "sub")):
        edit.scan(gm)
    assert not real
    gm(images())
    assert real
