"""``fxopt lessons``: the list, the check of a lesson, and codes that were handed in."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fxopt.lessons import lessons
from fxopt_cli.main import cli
from tests.lessons.small import TEXT


def run(*arguments: str, code: int = 0) -> Any:
    done = CliRunner().invoke(cli, ["lessons", *arguments, "--json"])
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


def test_the_list_has_each_lesson() -> None:
    found = run("list")
    assert [one["name"] for one in found["lessons"]] == [one.id for one in lessons()]
    assert found["command"] == "lessons list"


def test_a_lesson_is_checked_by_a_walk_and_each_fault_has_its_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.md"
    text = TEXT.replace("{model: small}", "{model: lesson_one_norm}").replace("_1", "norm")
    file.write_text(text)
    assert run("check", str(file)) == {"command": "lessons check", "file": str(file), "faults": []}
    file.write_text(text.replace("done: {site_on: [FoldBatchNorm, norm]}", "done: {fingerprint: original}"))
    faults = run("check", str(file), code=1)["faults"]
    assert [fault["line"] for fault in faults] == [9, 9]
    file.write_text(text.replace("site_on:", "side_on:"))
    (fault,) = run("check", str(file), code=1)["faults"]
    assert (fault["line"], "'site_on'" in fault["reason"]) == (23, True)


def test_codes_are_read_and_a_wrong_one_is_told(tmp_path: Path) -> None:
    found = run("code", "cd6c a4gm r8fy", "CD6C-A4GM-R8FZ", code=1)["codes"]
    assert [(one["lesson"], one["day"], bool(one["fault"])) for one in found] == [
        ("what-a-graph-is", "2026-11-29", False),
        (None, None, True),
    ]


def test_a_code_that_cannot_be_read_stands_in_the_table_with_its_fault() -> None:
    done = CliRunner().invoke(cli, ["lessons", "code", "CD6C-A4GM-R8FY", "CD6C-A4GM-R8FZ", "--csv"])
    assert done.exit_code == 1
    fine, wrong = csv.DictReader(done.stdout.splitlines())
    assert (fine["lesson"], fine["fault"]) == ("what-a-graph-is", "")
    assert (wrong["code"], wrong["lesson"]) == ("CD6C-A4GM-R8FZ", "")
    assert "typing error" in wrong["fault"]


def test_a_date_that_is_none_is_a_fault_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.md"
    file.write_text(TEXT.replace("{compare: true}]", "{edit: {edit: Delete, arguments: {node: 2026-13-45}}}]"))
    (fault,) = run("check", str(file), code=1)["faults"]
    assert fault["line"] == 55


@pytest.mark.parametrize("arguments", [("check", "nowhere.md"), ("check", ".")])
def test_what_is_no_file_is_refused(arguments: tuple[str, ...]) -> None:
    done = CliRunner().invoke(cli, ["lessons", *arguments])
    assert done.exit_code == 2
    assert "is not a file" in done.stderr
