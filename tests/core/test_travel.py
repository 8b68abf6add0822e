"""The way back goes through copies and files, and follows the moves of a graph module."""

import copy
import functools
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx import GraphModule

import fxopt
from fxopt import (
    Transformation,
    fingerprint,
)
from fxopt.core import shared_copy
from fxopt.testing.probes import pickled
from tests.core.states import (
    TRAVELS,
    every_move,
    every_travel,
    every_whole,
    traced,
)
from tests.examples import Example


@every_whole
@every_travel
def test_the_way_back_travels(travel: Any, example: Example, whole: Transformation) -> None:
    gm = traced(example)
    pristine = travel(gm)
    before = fingerprint(pristine)
    whole(gm)
    changed = fingerprint(gm)
    gone = travel(gm)
    whole(gone, reverse=True)
    gone.recompile()
    assert [node.name for node in gone.graph.nodes] == [node.name for node in pristine.graph.nodes]
    assert gone.code == pristine.code
    assert list(gone.state_dict()) == list(pristine.state_dict())
    for a, b in zip(gone.state_dict().values(), pristine.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    assert fingerprint(gm) == changed, "the one that stayed is as it was"
    whole(gm, reverse=True)
    if travel is copy.deepcopy or travel is shared_copy:
        assert fingerprint(gone) == before


class Buffers(nn.Module):
    """Calls that read buffers alone, at places far from those that use their results."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.arange(12.0).view(3, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        last = self.rows[1:2].t()
        return (x / 8 + self.rows.exp()[2]) * last.t() + self.rows[0] - last.t()


@pytest.mark.parametrize("travels", [[pickled], [copy.deepcopy, pickled], [pickled, pickled]], ids=len)
def test_calls_that_read_buffers_alone_stay_in_a_pickle(travels: list[Any]) -> None:
    gm = fxopt.capture(Buffers().eval(), (torch.rand(2, 4),))
    names = [node.name for node in gm.graph.nodes]
    fxopt.ChangeTrueDivToMulByInverse()(gm)
    for travel in travels:
        gm = travel(gm)
    fxopt.ChangeTrueDivToMulByInverse()(gm, reverse=True)
    assert [node.name for node in gm.graph.nodes] == names
    assert gm._tracer_cls is gm.graph._tracer_cls is torch.fx.Tracer


def test_a_buffer_that_is_given_to_a_function_without_proxies_is_loaded_as_torch_does() -> None:
    gm = fxopt.capture(Buffers().eval(), (torch.rand(2, 4),))
    [part] = [node for node in gm.graph.nodes if node.name == "getitem_2"]
    with gm.graph.inserting_before(part):
        part.replace_input_with(part.args[0], gm.graph.call_function(torch.as_tensor, (part.args[0],)))
    gm.recompile()
    fxopt.ChangeTrueDivToMulByInverse()(gm)
    loaded = pickled(gm)
    assert torch.equal(loaded(torch.ones(2, 4)), gm(torch.ones(2, 4)))
    with pytest.raises(fxopt.RewriteError, match="its nodes differ from those that were saved"):
        fxopt.ChangeTrueDivToMulByInverse()(loaded, reverse=True)


@every_whole
@every_move
def test_the_reverse_leads_to_what_a_move_of_the_pristine_graph_would_be(
    move: Any, example: Example, whole: Transformation
) -> None:
    gm, pristine = example.graph(), example.graph()
    before = copy.deepcopy(pristine)
    whole(gm)
    move(gm)
    move(pristine)
    whole(gm, reverse=True)
    assert fingerprint(gm) == fingerprint(pristine)
    move(gm)
    whole(gm)
    assert fingerprint(gm) != fingerprint(before)


@every_whole
@pytest.mark.parametrize("travel", [copy.deepcopy, TRAVELS["pickle"]], ids=["deepcopy", "pickle"])
def test_a_move_after_a_travel_is_followed_too(travel: Any, example: Example, whole: Transformation) -> None:
    gm, pristine = travel(whole(traced(example))).half(), travel(traced(example)).half()
    gm, pristine = travel(gm), travel(pristine)
    whole(gm, reverse=True)
    gm.recompile()
    assert gm.code == pristine.code
    for (name, a), (other, b) in zip(gm.state_dict().items(), pristine.state_dict().items(), strict=True):
        assert name == other
        assert a.dtype == b.dtype == torch.float16 or not a.is_floating_point()
        assert torch.equal(a, b)


@functools.cache
def with_model(example: Example) -> tuple[nn.Module, GraphModule]:
    model = example.model()
    return model, fxopt.capture(model, example.inputs())


@every_whole
@every_move
def test_a_move_does_not_reach_what_only_the_users_model_has(
    move: Any, example: Example, whole: Transformation
) -> None:
    model, gm = copy.deepcopy(with_model(example))  # together, so that they share weights as before
    whole(gm)
    mine = {name: module for name, module in model.named_modules() if module not in set(gm.modules())}
    held = {id(t) for t in [*gm.parameters(), *gm.buffers()]}
    before = {
        name: [(t.dtype, t.device, t._version) for t in module.parameters(recurse=False) if id(t) not in held]
        for name, module in mine.items()
    }
    training = {name: module.training for name, module in mine.items()}
    move(gm)
    assert {name: module.training for name, module in mine.items()} == training
    assert before == {
        name: [(t.dtype, t.device, t._version) for t in module.parameters(recurse=False) if id(t) not in held]
        for name, module in mine.items()
    }


def test_what_is_tied_stays_tied_when_it_is_moved() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
            self.b.weight = self.a.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.b(self.a(x))

    class Replace(Transformation):
        def transform(self, graph_module: GraphModule) -> GraphModule:
            graph_module.a, graph_module.b = nn.Identity(), nn.Identity()
            return graph_module

    gm = torch.fx.symbolic_trace(Tied())
    Replace()(gm)
    gm.half()
    Replace()(gm, reverse=True)
    assert gm.a.weight is gm.b.weight
    assert gm.a.weight.dtype == torch.float16
