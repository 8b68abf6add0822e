"""A model of one's own, from a shell to the browser."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser.serving import ROOT, answering, free_port
from tests.browser.visitor import FOLD, Visitor

pytestmark = pytest.mark.browser


def test_fxopt_app_opens_on_the_model_that_it_is_given(page: Page, tmp_path: Path) -> None:
    port, file = free_port(), ROOT / "tests" / "cli" / "models.py"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "fxopt_cli", "app", f"{file}:make", "--headless", f"--port={port}"]
    with answering(command, port, tmp_path / "log.txt", tmp_path, environment):
        visitor = Visitor(page, f"http://127.0.0.1:{port}")
        visitor.sees("models.py:make")
        visitor.switch(FOLD)
        visitor.sees_badge("1 site on")
        if folder := os.environ.get("KEEP_PICTURES"):
            page.screenshot(path=f"{folder}/own.png")
        page.goto("about:blank")  # a page whose server has ended says so
