"""Links: a workbench and a view as a short text, and back."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

import fxopt
from fxopt.edits import SetArgument
from fxopt.recipes import link
from fxopt.recipes.link import Link, same_steps
from tests.cli.models import make


@pytest.fixture(scope="module")
def start() -> fxopt.Workbench:
    model, x = make()
    return fxopt.Workbench(model.eval(), (x,))


def packed(content: Any) -> str:
    squeezed = zlib.compressobj(9, zdict=link._KNOWN)
    text = squeezed.compress(json.dumps(content).encode()) + squeezed.flush()
    return "1" + base64.urlsafe_b64encode(text).decode().rstrip("=")


def test_it_comes_back_and_leads_to_the_same_graph(start: fxopt.Workbench) -> None:
    wb, view = start.another(), {"selected": "q", "open": ("a", "b")}
    wb.turn_on("MergeLinears")
    wb.move("MergeLinears", 2)
    wb.edit(SetArgument("truediv", "args[1]", 1.5))
    text = Link.of(wb, view).to_text()
    assert text.replace("-", "").replace("_", "").isalnum()
    read = Link.from_text(text)
    assert same_steps(read.steps, Link.of(wb).steps)
    assert read.view == view
    other = start.another()
    assert not read.replay(other).problems
    assert other.choices == wb.choices
    other.undo()
    assert other.choices == start.choices


def test_two_compared_states_come_back_and_cost_few_letters(start: fxopt.Workbench) -> None:
    wb = start.another()
    wb.turn_on("MergeLinears")
    since = Link.of(wb).steps
    wb.edit(SetArgument("truediv", "args[1]", 1.5))
    alone = Link.of(wb, {"graph": "Diff"})
    both = replace(alone, since=since, back=alone.steps)
    assert Link.from_text(both.to_text()) == both
    assert len(both.to_text()) < 1.5 * len(alone.to_text())
    with pytest.raises(fxopt.RecipeError, match="knows no 'after' here"):
        Link.from_text(packed({"view": {}, "steps": [], "after": []}))


@pytest.mark.slow
def test_a_model_with_many_sites_fits_into_an_address() -> None:
    class Layers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList(
                torch.nn.ModuleDict({n: torch.nn.Linear(4, 4) for n in "qkv"}) for _ in range(24)
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = layer["q"](x) + layer["k"](x) + layer["v"](x)
            return x

    wb = fxopt.Workbench(Layers().eval(), (torch.rand(2, 4),))
    wb.turn_on("MergeLinears")
    assert sum(state.sites_on for state in wb.states) == 24
    assert len(Link.of(wb).to_text()) < 700


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "links begin with 1"),
        ("9abc", "links begin with 1"),
        ("1", "it is broken"),
        ("1!!!!", "it is broken"),
        ("1é", "it is broken"),
        (packed({"steps": []}), "'view' is missing"),
        (packed([]), "has to be an object"),
        (packed({"view": {"selected": 3}, "steps": []}), "view.selected: this is 3, and has to be text"),
        (packed({"view": {"open": ["a"] * 10_001}, "steps": []}), "may have 10,000"),
        (packed({"view": {}, "steps": [{"pass": "os.system"}]}), "'arguments' is missing"),
        (packed({"view": {}, "steps": [None] * 65}), "may have 64"),
        (packed({"view": {"selected": "a" * 300_000}, "steps": []}), "more than 262,144 bytes"),
    ],
)
def test_what_is_no_link_is_refused(text: str, message: str) -> None:
    with pytest.raises(fxopt.RecipeError, match=message):
        Link.from_text(text)


def test_a_pass_that_is_not_here_is_a_problem(start: fxopt.Workbench) -> None:
    content = {"view": {}, "steps": [{"pass": "os.system", "arguments": {}, "on": True, "sites": []}]}
    found = Link.from_text(packed(content)).replay(start.another())
    assert "the workbench has no such pass" in str(found.problems[0])
