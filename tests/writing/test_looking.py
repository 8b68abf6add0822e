"""A text of rules: its matches and near misses, and its faults with the line."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fxopt
from fxopt.core import fingerprint
from fxopt.writing import TEMPLATES, check, look, source_of_rules
from fxopt.writing.reading import passes_of


class Scaled(nn.Module):
    """Products with one and with two; one of the results is written to."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = (x * 1).relu() + x * 2
        return self.fc(y) * 0.5


ARGS = (torch.rand(3, 4),)
REMOVE_ONE = TEMPLATES[0].text


@pytest.fixture(scope="module")
def gm() -> torch.fx.GraphModule:
    return fxopt.capture(Scaled(), ARGS)


def test_a_rule_has_its_matches_and_near_misses_and_the_graph_stays(gm: torch.fx.GraphModule) -> None:
    before = fingerprint(gm)
    answer = look(REMOVE_ONE, gm)
    assert not answer.faults
    (found,) = answer.found
    assert (found.name, found.summary) == ("remove_one", "Replace `x * 1` with `x`.")
    assert [site.node for site in found.sites] == ["mul"]
    assert {miss.node: miss.reason for miss in found.misses} == {
        "mul_1": "the factor is 2", "mul_2": "the factor is 0.5"
    }  # fmt: skip
    assert fingerprint(gm) == before


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda one: one.title)
def test_every_template_is_a_rule(template, gm: torch.fx.GraphModule) -> None:
    answer = look(template.text, gm)
    assert not answer.faults
    assert len(answer.found) == 1


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("def f(:\n", 1, "this is not Python yet: "),
        ("@fxopt.rewrite\ndef f(x):\n    yield relu(x)\n    return x\n", 3, "did you mean torch.relu?"),
        ("@fxopt.rewrite\ndef f(x):\n    yield x * 1\n    return y\n", 4, "the name y has no meaning here"),
        ("@fxopt.rewrite\ndef f(x):\n    return x\n", 0, "yield"),
        ("import nothing_here\n", 1, "there is no module nothing_here here"),
        ("x = 1\n", 0, "there is no rule here yet"),
        ("1 / 0\n", 1, "division by zero (a ZeroDivisionError)"),
        ("raise SystemExit\n", 1, "it raised a SystemExit"),
        ("x = '\0'", 0, ""),
    ],
)
def test_a_fault_has_its_line_and_words(text: str, line: int, told: str, gm: torch.fx.GraphModule) -> None:
    (fault,) = look(text, gm).faults
    assert told in fault.text
    assert fault.line == line or not line
    if line and told != "this is not Python yet: ":
        assert fault.code == text.splitlines()[line - 1].strip()


def test_the_laws_are_checked_and_a_wrong_rule_gets_its_counter_example(gm: torch.fx.GraphModule) -> None:
    right = check(REMOVE_ONE, gm, ARGS, {})
    assert not right.faults
    assert right.found[0].checked.startswith("remove_one obeys ")
    wrong = REMOVE_ONE.replace("c == 1", "c == 2")
    (fault,) = check(wrong, gm, ARGS, {}).faults
    assert "remove_one on " in fault.text
    assert ", law: " in fault.text
    nowhere = check(TEMPLATES[1].text, gm, ARGS, {})
    assert nowhere.found[0].checked == "relu_twice has no site in this model, so nothing was checked"


def test_the_built_in_rules_are_there_to_be_read() -> None:
    texts = source_of_rules()
    assert "def multiply_by_one" in texts["identities.py"]
    passes, fault = passes_of(texts["identities.py"])
    assert fault is None
    assert [one.name for one in passes] == ["RemoveIdentities"]
