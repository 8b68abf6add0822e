"""Completion for a shell: models, passes, files and folders, and bash as it calls the command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fxopt_cli.names import complete_file, complete_lesson, complete_model, complete_recipe
from tests.cli.test_cli import ROOT

NET = """
import torch

def make(): ...
def width(size=3, *, deep=False): ...
def needs(size): ...
def needs_by_name(*, size): ...
def _hidden(): ...
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The present folder, with files of each kind."""
    for name in (
        "weights/config.json",
        "weights/model.safetensors",
        "work.json",
        "net.pt2",
        "notes.md",
        ".secret.json",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "model.py").write_text(NET)
    (tmp_path / "broken.py").write_text("def make(:")
    (tmp_path / "cache" / "models--google-bert--bert-base-uncased").mkdir(parents=True)
    (tmp_path / "cache" / "models--gpt2").mkdir()
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("begun", "found"),
    [
        ("digits_c", ["digits_conv_net"]),
        ("google", ["google-bert/bert-base-uncased"]),
        ("net", ["net.pt2"]),
        ("weights", ["weights/"]),
        ("cac", ["cache/", "cache/models--google-bert--bert-base-uncased/", "cache/models--gpt2/"]),
        ("model", ["model.py:make", "model.py:width"]),
        ("model.py:w", ["model.py:width"]),
        ("broken", ["broken.py"]),
        ("nowhere/x", []),
        ("nowhere.py:m", []),
        ("notes", []),
    ],
)
@pytest.mark.usefixtures("here")
def test_a_model_is_completed(begun: str, found: list[str]) -> None:
    assert complete_model(begun) == found


def test_recipes_and_lessons_are_completed_by_their_files_and_hidden_ones_by_a_dot(here: Path) -> None:
    assert complete_recipe("") == ["cache/", "weights/", "work.json"]
    assert complete_recipe(".") == [".secret.json"]
    assert complete_recipe(f"{here}/weights/c") == [f"{here}/weights/config.json"]
    assert complete_lesson("n") == ["notes.md"]
    assert complete_file("wei", ".json") == ["weights/", "weights/config.json"]


def test_the_home_folder_is_completed_as_it_is_written(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(here))
    assert complete_recipe("~/wo") == ["~/work.json"]
    assert complete_model("~/model.py:m") == ["~/model.py:make"]


LINES = {
    "replay wo": ["work.json"],
    "apply bert-base --recipe wo": ["work.json"],
    "scan mod": ["model.py:make", "model.py:width"],
    "app net": ["net.pt2"],
    "scan bert-base -p MergeL": ["MergeLinears"],
    "lessons check no": ["notes.md"],
    "draw bert-base --out pic": [],  # bash itself completes any file then
}
BASH = """
source <(_FXOPT_COMPLETE=source_bash fxopt)
complete -p fxopt
while read -r line; do
    read -ra COMP_WORDS <<<"fxopt $line"
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _fxopt_completion fxopt
    echo "${COMPREPLY[*]}"
done
"""


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_bash_completes_lines() -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", BASH], input="\n".join(LINES) + "\n", capture_output=True, text=True,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    registered, *answers = done.stdout.splitlines()
    assert registered == "complete -o default -F _fxopt_completion fxopt", done.stderr
    assert dict(zip(LINES, map(str.split, answers), strict=True)) == LINES
