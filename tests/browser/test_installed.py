"""The page of an installed wheel, served by the command `fxopt` from an empty folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser.serving import ROOT, answering, free_port
from tests.browser.visitor import FOLD, Visitor

pytestmark = pytest.mark.browser


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder into which a wheel of the library was installed; its dependencies are those of the tests."""
    source, target = tmp_path / "source", tmp_path / "installed"
    for package in ("fxopt", "fxopt_cli"):
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]
    for arguments in (
        ["wheel", str(source), "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path)],
        ["install", "--no-deps", "--no-index", "--find-links", str(tmp_path), "--target", str(target), "fxopt"],
    ):
        subprocess.run([*pip, *arguments], check=True, cwd=tmp_path)
    return target


def test_a_wheel_opens_the_page_with_its_settings_from_any_folder(page: Page, installed: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    port, log = free_port(), tmp_path / "log.txt"
    environment = {**os.environ, "PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    where = "import importlib.util; print(importlib.util.find_spec('fxopt').origin)"
    found = subprocess.run([sys.executable, "-c", where], cwd=empty, env=environment, capture_output=True, text=True)
    assert Path(found.stdout.strip()) == installed / "fxopt" / "__init__.py"
    command = [str(installed / "bin" / "fxopt"), "app", "--headless", f"--port={port}"]
    with answering(command, port, log, empty, environment):
        visitor = Visitor(page, f"http://127.0.0.1:{port}/a/wrong/path?kept=1")
        assert page.url.startswith(f"http://127.0.0.1:{port}/?kept=1")
        visitor.switch(FOLD)
        visitor.sees_badge("4 sites on")
        assert page.title() == "fxopt"
        assert page.evaluate("getComputedStyle(document.documentElement).fontSize") == "14px", "as config.toml says"
        page.goto("about:blank")  # a page whose server has ended says so
    assert not [*empty.iterdir()]
