"""`fxopt.explore` from a person's script to the browser, and from there back to the shell."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page

from tests.browser.serving import ROOT
from tests.browser.visitor import FOLD, Visitor

pytestmark = pytest.mark.browser

SCRIPT = Path(__file__).parent / "explore_script.py"


@pytest.fixture
def script(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # which a shell's `&` has switched off
    with (
        (tmp_path / "errors.txt").open("w") as errors,
        subprocess.Popen(
            [sys.executable, str(SCRIPT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            cwd=tmp_path, env=environment, preexec_fn=heed,
        ) as running,
    ):  # fmt: skip
        yield running
        running.kill()


def told(script: subprocess.Popen[str], text: str) -> str:
    """The next line that the script prints; it has to hold a text."""
    assert script.stdout is not None
    line = script.stdout.readline()
    assert text in line
    return line


def test_a_script_opens_the_page_on_its_models_and_stays_for_it_until_ctrl_c(
    page: Page, script: subprocess.Popen[str], tmp_path: Path
) -> None:
    told(script, "narrow is at http://127.0.0.1:")
    address = told(script, "wide is at ").split()[-1]
    bare = f"http://{urlsplit(address).netloc}/"
    refused = page.request.get(bare)
    assert (refused.status, "printed" in refused.text()) == (403, True)
    visitor = Visitor(page, address)
    visitor.sees("wide")
    assert "token" not in page.url
    visitor.switch(FOLD)
    visitor.sees_badge("1 site on")
    visitor.pick("narrow")
    visitor.wait_for_marks("conv", "matched")

    assert script.stdin is not None
    script.stdin.write("\n")
    script.stdin.flush()
    told(script, "saved")
    address = told(script, "branches is at ").split()[-1]
    told(script, "The page stays open until Ctrl+C.")
    errors = (tmp_path / "errors.txt").read_text()
    assert "CaptureError: no way of capturing Branches worked" in errors
    page.goto(address)
    visitor.sees("return self.norm(x) if x.sum() > 0 else x")
    visitor.sees("The graph up to there")
    if folder := os.environ.get("KEEP_PICTURES"):
        page.screenshot(path=f"{folder}/branches.png")
    visitor.pick("wide")  # the script is over, and its page goes on
    visitor.switch(FOLD)
    visitor.sees_badge("1 site on")
    page.goto("about:blank")
    script.send_signal(signal.SIGINT)
    assert script.wait(20) == 1, "as Python ends after an error"
    assert (tmp_path / "errors.txt").read_text() == errors
