"""Every script under examples/ runs, with warnings as errors, and each is listed in its README."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS)
def test_an_example_runs_and_says_what_it_found(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / script), run_name="__main__")
    assert capsys.readouterr().out.strip()


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
