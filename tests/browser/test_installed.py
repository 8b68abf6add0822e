"""The page of an installed wheel, served by the command `fxopt` from an empty folder, in an environment of its own."""

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


ENVIRONMENT = ROOT / ".cache" / "wheel"
"""It has what the wheel asks for and nothing else; ``make .cache/wheel/ready`` makes it."""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The environment, with a wheel of the library as it is now."""
    if not (ENVIRONMENT / "ready").is_file():
        pytest.skip("the environment of the wheel is missing: make .cache/wheel/ready")
    source = tmp_path / "source"
    for package in ("fxopt", "fxopt_cli"):
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = ["-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]
    build = [
        sys.executable,
        *pip,
        "wheel",
        str(source),
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(tmp_path),
    ]
    subprocess.run(build, check=True, cwd=tmp_path)
    (wheel,) = tmp_path.glob("fxopt-*.whl")
    put = [
        str(ENVIRONMENT / "bin" / "python"),
        *pip,
        "install",
        "--no-deps",
        "--no-index",
        "--force-reinstall",
        str(wheel),
    ]
    subprocess.run(put, check=True, cwd=tmp_path)
    return ENVIRONMENT


def test_a_wheel_opens_the_page_with_its_settings_from_any_folder(page: Page, installed: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    port, log = free_port(), tmp_path / "log.txt"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    environment.pop("PYTHONPATH", None)
    where = "import fxopt; print(fxopt.__file__)"
    python = str(installed / "bin" / "python")
    found = subprocess.run(
        [python, "-c", where], cwd=empty, env=environment, capture_output=True, text=True, check=True
    )
    assert Path(found.stdout.strip()).is_relative_to(installed), "the checkout would be tested else"
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
