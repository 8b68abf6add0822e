"""Every script under examples/ runs, with warnings as errors, and each is listed in its README."""

import functools
import os
import re
import runpy
import signal
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py"))
PAGE = "explore.py"
"""The one that stays for the page that it opens."""


@pytest.mark.parametrize("script", [script for script in SCRIPTS if script != PAGE])
def test_an_example_runs_and_says_what_it_found(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / script), run_name="__main__")
    assert capsys.readouterr().out.strip()


@pytest.mark.slow
def test_the_script_that_opens_the_page_stays_until_ctrl_c() -> None:
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent), "DISPLAY": "", "WAYLAND_DISPLAY": ""}
    command = [sys.executable, "-W", "error", str(EXAMPLES / PAGE)]
    heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # which a shell's `&` has switched off
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, preexec_fn=heed) as running:
        assert running.stdout is not None
        told = [running.stdout.readline() for _ in range(5)]
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 0
    assert "narrow is at http://127.0.0.1:" in told[0]
    assert "stays open until Ctrl+C" in told[4]


@pytest.mark.slow
def test_the_shell_script_runs() -> None:
    environment = {**os.environ, "FXOPT": f"{sys.executable} -m fxopt_cli"}
    script = str(EXAMPLES / "shell.sh")
    done = subprocess.run(["bash", script], env=environment, cwd=EXAMPLES.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "restored, bit for bit" in done.stdout


def test_the_readme_lists_every_example() -> None:
    readme = (EXAMPLES / "README.md").read_text()
    assert set(re.findall(r"\]\((\w+\.py)\)", readme)) == set(SCRIPTS)
