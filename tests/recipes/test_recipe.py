"""Recipes: a replay gives the same graph to the last bit, and a changed model says which site is gone and why."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import fxopt
from fxopt import MergeLinears, Recipe, RecipeError, Workbench, fingerprint
from fxopt.edits import ALL_EDITS, Edit, Insert, Retarget, SetArgument
from fxopt.packed import multiplies_int8
from fxopt.recipes import Model
from tests.edits.model import Small, images, small
from tests.edits.test_laws import HOLD
from tests.examples import Example
from tests.passes.declared import EXAMPLES
from tests.quick import quick

ROOT = Path(__file__).parent.parent.parent


def walked(wb: Workbench, draw: random.Random) -> None:
    """Switch passes and sites, and move passes, at random."""
    for _ in range(12):
        state = draw.choice(wb.states)
        site = draw.choice([None, *(one.site for one in state.sites)])
        draw.choice([wb.turn_on, wb.turn_on, wb.turn_off])(state.pass_, site)
        if draw.random() < 0.2:
            wb.move(draw.choice(wb.passes), draw.randrange(len(wb.passes)))


@pytest.mark.parametrize("example", quick(EXAMPLES, EXAMPLES[4]), ids=lambda e: e.name)
def test_saved_and_replayed_every_pass_comes_to_the_same_fingerprint(example: Example) -> None:
    gm = example.graph()
    for seed in range(2):
        wb, other = Workbench(gm), Workbench(gm)
        walked(wb, random.Random(seed))
        recipe = Recipe.from_json(Recipe.of(wb).to_json())
        found = recipe.replay(other)
        assert (found.is_same_model, found.is_same, found.problems, found.new_sites) == (True, True, (), ())
        assert fingerprint(other.current) == fingerprint(wb.current)
        assert [state.name for state in other.states] == [state.name for state in wb.states]
        other.undo()
        assert other.is_restored


ONE_OF_EACH = [next(edit for edit in HOLD if type(edit) is kind) for kind in ALL_EDITS]


@pytest.mark.parametrize("edit", quick(HOLD, *ONE_OF_EACH), ids=lambda edit: edit.name)
def test_every_edit_is_saved_and_replayed(edit: Edit) -> None:
    gm = small()
    wb = Workbench(gm, passes=())
    wb.edit(edit)
    other = wb.another()
    assert Recipe.from_json(Recipe.of(wb).to_json()).replay(other).is_same
    assert fingerprint(other.current) == fingerprint(wb.current)
    assert other.edits[0].signature == wb.edits[0].signature


@pytest.mark.slow
def test_equal_edits_in_a_row_stay_apart() -> None:
    wb, other = Workbench(small()), Workbench(small())
    for value in (2.0, 4.0, 2.0):
        wb.edit(SetArgument("truediv", "args[1]", value))
    Recipe.from_json(Recipe.of(wb).to_json()).replay(other)
    assert fingerprint(other.current) == fingerprint(wb.current)


@pytest.mark.slow
def test_arguments_of_passes_are_kept() -> None:
    passes = (MergeLinears(keep="view"), fxopt.FuseBatchNorm2dInConv2d())
    wb = Workbench(small(), passes=passes)
    wb.turn_on("MergeLinears")
    recipe = Recipe.from_json(Recipe.of(wb).to_json())
    assert [one.signature for one in recipe.passes()] == [one.signature for one in passes]
    other = Workbench(small(), passes=recipe.passes())
    assert recipe.replay(other).is_same
    with pytest.raises(RecipeError, match="no such pass with these arguments") as refused:
        recipe.replay(Workbench(small()))
    assert [problem.name for problem in refused.value.problems] == ["MergeLinears"]


def test_an_approximate_pass_comes_with_the_recipe_and_goes_with_undo() -> None:
    wb = Workbench(small())
    wb.add(fxopt.QuantizeLinears({node.name: (-1.0, 1.0) for node in wb.pristine.graph.nodes}), to=0)
    wb.turn_on("QuantizeLinears")
    sites = wb.state_of("QuantizeLinears").sites_on
    assert sites or not multiplies_int8()
    other = Workbench(small())
    recipe = Recipe.from_json(Recipe.of(wb).to_json())
    assert recipe.passes()[0].signature == wb.added[0].signature
    assert recipe.replay(other).sites_on == sites
    assert other.state_of("QuantizeLinears").pass_.signature == wb.added[0].signature
    other.undo()
    assert not other.added
    wb.turn_off("QuantizeLinears")
    Recipe.from_json(Recipe.of(wb).to_json()).replay(other)
    assert (other.choices, other.state_of("QuantizeLinears").on) == (wb.choices, False)
    given = Workbench(small(), passes=[*(kind() for kind in fxopt.ALL_PASSES), fxopt.QuantizeLinears()])
    with pytest.raises(RecipeError, match="no such pass with these arguments"):
        recipe.replay(given)


SCRIPT = """
import sys, torch, fxopt, model
wb = fxopt.Workbench(model.make(), (torch.rand(2, 8),))
if sys.argv[1] == "save":
    wb.turn_on("MergeLinears")
    fxopt.Recipe.of(wb).save(sys.argv[2])
else:
    print(fxopt.Recipe.load(sys.argv[2]).replay(wb).is_same)
"""
MODEL = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(8, 4), nn.Linear(8, 4)
    def forward(self, x):
        return self.q(x) + self.k(x)
def make():
    torch.manual_seed(0)
    return Net().eval()
"""


@pytest.mark.slow
def test_the_fingerprint_is_the_same_in_another_process_and_folder(tmp_path: Path) -> None:
    for folder, lines in (("here", ""), ("there", "\n\n# moved\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "model.py").write_text(lines + MODEL)
    for act, folder in (("save", "here"), ("replay", "there")):
        call = [sys.executable, "-c", SCRIPT, act, str(tmp_path / "recipe.json")]
        environment = {"PYTHONPATH": f"{ROOT}:{tmp_path / folder}", "PATH": ""}
        done = subprocess.run(call, capture_output=True, text=True, env=environment, cwd=tmp_path / folder)
        assert done.returncode == 0, done.stderr
    assert done.stdout == "True\n"


# ---- a changed model


class Changed(Small):
    """Its batch norm is gone, one of two siblings has other features, and another division is there."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.Identity()
        self.b = nn.Linear(4, 6).double()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.act(self.norm(self.conv(images))).flatten(2).mean(-1)
        one, two = self.a(x), self.b(x.double()).float()
        return self.last(self.drop((one.relu() / 4 - two.tanh()) / 8)).softmax(-1)


def changed() -> Workbench:
    torch.manual_seed(0)
    return Workbench(fxopt.capture(torch.fx.symbolic_trace(Changed().eval()), (images(),)))


def worked() -> Workbench:
    wb = Workbench(small())
    for name in ("FuseBatchNorm2dInConv2d", "MergeLinears", "ChangeTrueDivToMulByInverse"):
        wb.turn_on(name)
    wb.edit(Insert("softmax", "Probe"))
    wb.edit(Retarget("sub", "operator.add"))
    return wb


class Pair(nn.Module):
    """Two linears of these names that read one input."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names = names
        for name in names:
            self.add_module(name, nn.Linear(8, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = (self.get_submodule(name)(x) for name in self.names)
        return first * second


def test_a_model_with_sites_of_other_names_is_told_that_the_node_is_not_there() -> None:
    x = torch.rand(2, 8)
    wb = Workbench(Pair("q", "k").eval(), (x,))
    wb.turn_on("MergeLinears")
    with pytest.raises(RecipeError, match="MergeLinears at q: there is no such node"):
        Recipe.of(wb).replay(Workbench(Pair("a", "b").eval(), (x,)))


def test_a_changed_model_is_refused_with_each_site_and_its_reason_and_left_as_it_is() -> None:
    wb = changed()
    wb.turn_on("RemoveIdentities")
    wb.undo()
    recipe = Recipe.of(worked())
    before, choices = fingerprint(wb.current), wb.choices
    with pytest.raises(RecipeError, match="the model is another one than that of the recipe") as refused:
        recipe.replay(wb)
    told = {(problem.name, problem.site): str(problem) for problem in refused.value.problems}
    assert set(told) == {("FuseBatchNorm2dInConv2d", "norm"), ("MergeLinears", "a")}
    assert "BatchNorm2d" in told["FuseBatchNorm2dInConv2d", "norm"]
    number = [step.name for step in recipe.steps].index("MergeLinears")
    assert told["MergeLinears", "a"].startswith(f"steps[{number}] MergeLinears at a: ")
    assert (fingerprint(wb.current), wb.choices, wb.edits) == (before, choices, ())
    assert wb.can_redo, "its history is as it was"


def test_the_rest_is_applied_when_asked_to_and_new_sites_stay_off() -> None:
    wb = changed()
    recipe = Recipe.of(worked())
    found = recipe.replay(wb, strict=False)
    assert (found.is_same_model, found.is_same) == (False, False)
    assert len(found.problems) == 2
    assert found.new_sites == (("ChangeTrueDivToMulByInverse", "truediv_1"),)
    assert wb.state_of("ChangeTrueDivToMulByInverse").sites_on == 1
    assert [wb.state_of(edit).sites_on for edit in wb.edits] == [1, 1]
    assert found.sites_on == 3
    wb.undo()
    assert wb.is_restored


def test_an_edit_that_no_longer_holds_says_why() -> None:
    recipe = Recipe.of(worked())
    model = nn.Sequential(nn.Linear(3, 3)).eval()
    with pytest.raises(RecipeError, match="there is no node sub in the graph as it is"):
        recipe.replay(Workbench(model, (torch.rand(2, 3),)))


@pytest.mark.slow
def test_other_weights_alone_are_no_problem_but_are_told() -> None:
    recipe = Recipe.of(worked())
    torch.manual_seed(5)
    other = Workbench(fxopt.capture(torch.fx.symbolic_trace(Small().eval()), (images(),)))
    found = recipe.replay(other)
    assert (found.is_same_model, found.is_same, found.problems) == (False, False, ())


def test_a_result_that_is_not_the_one_that_the_recipe_names_is_refused() -> None:
    content = json.loads(Recipe.of(worked()).to_json())
    content["fingerprints"]["after"] = "0" * 32
    content["versions"]["torch"] = "1.0"
    wb = Workbench(small())
    with pytest.raises(RecipeError, match=r"another one than it names.*torch was 1\.0") as refused:
        Recipe.from_json(json.dumps(content)).replay(wb)
    assert refused.value.is_refusal
    assert wb.is_restored
    assert not wb.can_undo


@pytest.mark.slow
def test_a_recipe_is_replayed_over_work_in_one_step() -> None:
    wb = Workbench(small())
    wb.turn_on("MergeLinears")
    wb.edit(SetArgument("truediv", "args[1]", 5.0))
    before = fingerprint(wb.current)
    Recipe.of(worked()).replay(wb)
    assert fingerprint(wb.current) == fingerprint(worked().current)
    wb.undo()
    assert fingerprint(wb.current) == before


# ---- saving


@pytest.mark.parametrize("value", [slice(1), torch.device("cpu"), torch.Size([2]), 1j, torch.ones(1)], ids=str)
def test_a_value_that_would_not_come_back_is_refused_with_its_place(value: object) -> None:
    from fxopt.recipes.values import to_json

    with pytest.raises(RecipeError, match=r"^steps\[7\]\.arguments\.value: a .* has no form in a recipe"):
        to_json(value, ("steps", 7, "arguments", "value"))


def test_a_recipe_is_saved_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "recipe.json"
    recipe = Recipe.of(worked(), Model("zoo", "digits_conv_net"), batch=8)
    recipe.save(file)
    assert Recipe.load(file) == recipe
    assert [path.name for path in tmp_path.iterdir()] == ["recipe.json"]
    with pytest.raises(RecipeError, match=r"nowhere/recipe\.json: it cannot be written \(No such file"):
        recipe.save(tmp_path / "nowhere" / "recipe.json")
    with pytest.raises(RecipeError, match="cannot be written"):
        recipe.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["recipe.json"]
