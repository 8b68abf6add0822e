"""Passes of other packages: a real distribution on the path, with entry points, is read like any installed one."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from streamlit.testing.v1 import AppTest
from typer.testing import CliRunner

import fxopt
from fxopt.errors import remarks
from fxopt.passes import ALL_PASSES, installed, others_installed, registered_passes
from fxopt.testing import check_pass
from fxopt.ui.command import PAGE
from fxopt.ui.open_model import captured
from fxopt.ui.viewing import look_at
from fxopt_cli.main import cli
from fxopt_cli.names import complete_pass
from tests.ui.conftest import whole_page  # noqa: F401 - a fixture of each test here
from tests.ui.visitor import session, texts

MODULE = '''
import fxopt
import torch

@fxopt.rewrite
def double_by_sum(x):
    """Replace `x * 2` with `x + x`: the sum of a number and itself is exactly twice the number."""
    yield x * 2
    return x + x

class ChangeNothing(fxopt.Pass):
    """Look at each relu."""
    targets = (torch.relu,)
    def match(self, node, index): return None
    def explain(self, match): return ""
    def rewrite(self, match, rewriter): pass

class MergeLinears(ChangeNothing):
    """Has a name that is taken."""

class QuantizeLinears(ChangeNothing):
    """Has the name of a pass that runs on request alone."""

class NeedsArgument(ChangeNothing):
    """Cannot be made."""
    def __init__(self, by): self.by = by

LIST = [1]
'''
POINTS = """[fxopt.passes]
double_by_sum = tiny_passes:double_by_sum
ChangeNothing = tiny_passes:ChangeNothing
MergeLinears = tiny_passes:MergeLinears
QuantizeLinears = tiny_passes:QuantizeLinears
NeedsArgument = tiny_passes:NeedsArgument
LIST = tiny_passes:LIST
Renamed = tiny_passes:ChangeNothing
absent = tiny_passes.absent:absent
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder as pip leaves it, with one package of passes."""
    (tmp_path / "tiny_passes.py").write_text(MODULE)
    info = tmp_path / "tiny_passes-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-passes\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text(POINTS)
    return tmp_path


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * 2)


@pytest.fixture
def here(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package, installed for this process, which has not looked for passes yet."""
    monkeypatch.setattr(installed, "_found", None)
    monkeypatch.syspath_prepend(str(site))
    yield
    sys.modules.pop("tiny_passes", None)


def test_passes_of_a_package_are_treated_like_built_in_ones(here: None) -> None:
    args = (torch.rand(3),)
    with remarks() as told:
        wb = fxopt.Workbench(Model(), args)
        fxopt.Workbench(Model(), args)
    others = others_installed()
    assert told == [str(one) for one in others.refused], "each is told once in a process"
    assert [kind.__name__ for kind in others.kinds] == ["ChangeNothing", "double_by_sum"]
    assert registered_passes() == (*ALL_PASSES, *others.kinds)
    assert [others.package_of(one) for one in wb.passes] == [""] * len(ALL_PASSES) + ["tiny-passes 0.1"] * 2
    wb.turn_on("double_by_sum")
    saved = fxopt.Recipe.of(wb)
    assert saved.versions["tiny-passes"] == "0.1"
    again = fxopt.Workbench(Model(), args)
    fxopt.Recipe.from_bytes(saved.to_json().encode()).replay(again)
    assert "x + x" in again.current.code
    assert complete_pass("double") == ["double_by_sum"]
    check_pass(others.kinds[1](), [(Model(), args)])


def test_what_is_no_pass_or_has_a_taken_name_is_left_out_with_the_reason(here: None) -> None:
    with remarks():
        reasons = {one.name: one.reason for one in others_installed().refused}
    for taken in ("MergeLinears", "QuantizeLinears"):
        assert reasons.pop(taken) == "fxopt has a pass of this name; give it another one"
    assert "cannot be made without arguments" in reasons.pop("NeedsArgument")
    assert reasons.pop("LIST") == "a list is no pass; name a subclass of fxopt.Pass, or a rule"
    assert reasons.pop("Renamed") == "its own name is ChangeNothing; name the entry point so"
    assert "cannot be imported from tiny_passes.absent:absent (ModuleNotFoundError" in reasons.pop("absent")
    assert not reasons


def test_the_command_lists_them_with_their_package(here: None) -> None:
    done = CliRunner().invoke(cli, ["passes", "--json"])
    answer = json.loads(done.stdout)
    assert {one["name"]: one["package"] for one in answer["passes"]}["double_by_sum"] == "tiny-passes 0.1"
    assert len(answer["left_out"]) == 6


@pytest.mark.slow
def test_the_page_lists_them(here: None) -> None:
    captured.clear()
    with remarks():
        app = AppTest.from_file(str(PAGE), default_timeout=120).run()
        assert not app.exception
        bench = session(app).workbench
        look_at(session(app), "double_by_sum")
        app.run()
    captured.clear()
    assert bench.passes[-1].name == "double_by_sum"
    told = texts(app).replace("\\", "")
    assert "brought by the installed package tiny-passes 0.1" in told
    assert "the pass absent of tiny-passes 0.1 is left out" in told
