"""Edits obey the laws of passes, in any order together with passes."""

from __future__ import annotations

import copy
import itertools
import random

import pytest
import torch
from torch import nn

import fxopt
from fxopt import FuseBatchNorm2dInConv2d, MergeLinears, Workbench, fingerprint
from fxopt.edits import Delete, Edit, EditError, Insert, ReplaceModule, Retarget, Rewire, SetArgument, SwapInputs
from fxopt.testing import check_pass
from tests.edits.model import Small, images, small
from tests.fuzz.replay import assert_replays
from tests.quick import third
from tests.saving import saved_and_loaded

EDITS: tuple[Edit, ...] = (
    SetArgument("truediv", "args[1]", 2.5),
    SetArgument("softmax", "args[1]", 7),
    SetArgument("mean", "args[1]", 1),
    Retarget("relu", "F.gelu"),
    Retarget("tanh", "sigmoid"),
    Retarget("sub", "operator.add"),
    Rewire("sub", "args[1]", "a"),
    Rewire("b", "args[0]", "mean"),
    SwapInputs("sub", "args[0]", "args[1]"),
    Delete("drop", "sub"),
    Delete("norm", "conv"),
    Delete("tanh", "b"),
    Insert("images", "Identity"),
    Insert("mean", "ReLU", "b"),
    Insert("sub", "Dropout(p=0.1)"),
    Insert("softmax", "Probe"),
    ReplaceModule("act", "Sigmoid"),
    ReplaceModule("drop", "Identity"),
)
HOLD = tuple(edit for edit in EDITS if edit.name not in ("SetArgument(softmax, args[1], 7)",
             "SetArgument(mean, args[1], 1)", "Rewire(b, args[0], 'mean')"))  # fmt: skip


BESIDE: tuple[Edit, ...] = (
    SetArgument("truediv", "args[1]", 2.5),
    SwapInputs("sub", "args[0]", "args[1]"),
    Insert("sub", "Dropout(p=0.1)"),
    ReplaceModule("act", "Sigmoid"),
)
"""Edits of nodes that neither pass takes away."""


def name(edit: Edit) -> str:
    return edit.name


@pytest.mark.parametrize("edit", third(HOLD), ids=name)
def test_an_edit_obeys_the_laws_of_passes(edit: Edit) -> None:
    report = check_pass(edit, [(small(), (images(),))])
    assert report.sites == 1
    assert not report.skipped


@pytest.mark.parametrize("edit", HOLD, ids=name)
def test_the_way_back_survives_torch_save(edit: Edit) -> None:
    gm = small()
    names, code = [node.name for node in gm.graph.nodes], gm.code
    edit(gm)
    loaded = saved_and_loaded(gm)
    edit(loaded, reverse=True)
    assert ([node.name for node in loaded.graph.nodes], loaded.code) == (names, code)


@pytest.mark.parametrize("edit", HOLD, ids=name)
def test_an_edited_graph_runs_and_returns_what_its_metadata_says(edit: Edit) -> None:
    gm = small()
    edit(gm)
    gm.graph.lint()
    seen: dict[str, tuple[int, ...]] = {}

    class Noting(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> object:
            value = super().run_node(n)
            seen[n.name] = tuple(value.shape)
            return value

    with torch.no_grad():
        Noting(gm).run(images())
    known = {node.name: node.meta["tensor_info"].shape for node in gm.graph.nodes}
    assert {name: tuple(5 if size == "batch" else size for size in shape) for name, shape in known.items()} == seen


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(BESIDE, 2)), ids=lambda edit: edit.name)
@pytest.mark.parametrize(
    "pass_",
    [MergeLinears(), pytest.param(FuseBatchNorm2dInConv2d(), marks=pytest.mark.slow)],
    ids=lambda pass_: pass_.name,
)
def test_edits_and_a_pass_go_off_in_any_order(one: Edit, other: Edit, pass_: fxopt.Pass) -> None:
    for order in itertools.permutations((one, other, pass_)):
        wb = Workbench(small())
        wb.turn_on(pass_)
        one, other = wb.edit(one), wb.edit(other)
        for each in order:
            wb.turn_off(each)
            assert_replays(wb.pristine, wb.current)
        assert wb.is_restored


@pytest.mark.slow
def test_a_random_walk_of_edits_and_passes_is_a_replay_and_comes_back() -> None:
    draw = random.Random(5)
    wb = Workbench(small())
    made = refused = 0
    for _ in range(200):
        act = draw.choice(["edit", "edit", "switch", "switch", "site", "undo", "redo", "move", "remove"])
        if act == "edit":
            before, history = fingerprint(wb.current), wb.choices
            try:
                wb.edit(draw.choice(EDITS))
                made += 1
            except EditError:
                refused += 1
                assert (fingerprint(wb.current), wb.choices) == (before, history)
        elif act == "switch":
            draw.choice([wb.turn_on, wb.turn_off])(draw.choice(wb.passes))
        elif act == "site":
            state = draw.choice(wb.states)
            if state.sites:
                draw.choice([wb.turn_on, wb.turn_off])(state.pass_, draw.choice(state.sites).site)
        elif act == "move":
            wb.move(draw.choice(wb.passes), draw.randrange(len(wb.passes)))
        elif act == "remove" and wb.edits:
            wb.remove(draw.choice(wb.edits))
        else:
            draw.choice([wb.undo, wb.redo])()
        assert [state.error for state in wb.states] == [""] * len(wb.passes)
        assert_replays(wb.pristine, wb.current)
    assert made > 10
    assert refused > 3
    wb.reverse_all()
    assert wb.is_restored


def test_a_copy_of_a_graph_module_takes_its_edits_along() -> None:
    gm = small()
    before = fingerprint(gm)
    edit = Insert("mean", "ReLU", "b")
    edit(gm)
    twin = copy.deepcopy(gm)
    edit(twin, reverse=True)
    assert fingerprint(twin) == before
    assert edit.sites_on(gm) == ("mean",)


def test_checking_an_edit_leaves_the_model_the_random_numbers_and_the_log_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[torch.Tensor] = []

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen.append(x)
            return x * 2

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.counts = nn.BatchNorm1d(3), Counts()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.counts(self.norm(torch.relu(x)))

    model = Outer().train()
    gm = fxopt.capture(model, (torch.rand(4, 3),), leaf=Counts, verify=False)
    del model.counts.seen[:]
    state = torch.random.get_rng_state()
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    edit = Retarget("relu", "torch.sum")
    with pytest.raises(EditError):
        edit.check(fxopt.core.GraphIndex(gm))
    Insert("norm", "Dropout(p=0.5)").check(fxopt.core.GraphIndex(gm))
    SetArgument("relu", "kwargs['inplace']", True).scan(gm)
    assert model.counts.seen == []
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(buffer, buffers[name]) for name, buffer in model.named_buffers())
    assert not caplog.records


def test_the_model_itself_is_as_it_was() -> None:
    model = Small().eval()
    expected = model(images())
    gm = fxopt.capture(model, (images(),))
    for edit in HOLD:
        edit(gm)
        assert torch.equal(model(images()), expected)
        edit(gm, reverse=True)
