"""The JSON of each command has the shape that docs/cli.md shows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fxopt.evidence import latency
from fxopt_cli.main import cli
from tests.cli.test_cli import FILE, NET, ROOT, answer

TEXT = (ROOT / "docs" / "cli.md").read_text()
SHAPES = {name: json.loads(block) for name, block in re.findall(r"## `fxopt (\w+)`\n.*?```json\n(.*?)```", TEXT, re.S)}
CALLS = {
    "models": (),
    "passes": (),
    "capture": (NET,),
    "draw": (NET,),
    "apply": (NET, "-p", "MergeLinears"),
    "reverse": (NET, "-p", "MergeLinears"),
    "compare": (NET, "-p", "MergeLinears"),
    "times": (NET, "-p", "MergeLinears", "--rounds", "2"),
    "bisect": (NET, "-p", "MergeLinears"),
    "autotune": (NET, "-p", "MergeLinears", "--budget", "5"),
    "bench": (NET, "-p", "MergeLinears", "--rounds", "6"),
}


def assert_like(shape: Any, found: Any, at: str = "") -> None:
    """The same keys, and values of the same kind; null where either is."""
    if isinstance(shape, dict):
        assert isinstance(found, dict), at
        is_map = at.endswith((".arguments", ".free"))  # names of their own
        assert is_map or list(shape) == list(found), at
        for name in () if is_map else shape:
            assert_like(shape[name], found[name], f"{at}.{name}")
    elif isinstance(shape, list):
        assert isinstance(found, list), at
        for one in found if shape else ():
            assert_like(shape[0], one, f"{at}[]")
    elif shape is not None and found is not None:
        numbers = int | float
        assert type(shape) is type(found) or (isinstance(shape, numbers) and isinstance(found, numbers)), at


def test_every_command_is_documented() -> None:
    assert set(SHAPES) == {str(command.name) for command in cli.registered_commands}


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_json_is_as_documented(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "SAMPLE_SECONDS", 0.0001)
    assert_like(SHAPES[name], answer(name, *CALLS[name]))


@pytest.mark.slow
def test_json_of_scan_and_replay_is_as_documented(tmp_path: Path) -> None:
    assert_like(SHAPES["scan"], answer("scan", NET))
    assert_like(SHAPES["scan"], answer("scan", f"{FILE}:read_twice"))
    file = str(tmp_path / "work.json")
    answer("apply", NET, "-p", "MergeLinears", "--save", file)
    assert_like(SHAPES["replay"], answer("replay", file, NET))
    assert_like(SHAPES["export"], answer("export", NET, "-o", str(tmp_path / "out")))
    assert_like(SHAPES["replay"], answer("replay", file, f"{FILE}:changed", "--input", "2x4", "--rest", code=1))
