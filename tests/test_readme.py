"""The README's code runs, as one script from top to bottom."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.slow
def test_the_code_of_the_readme_runs(tmp_path: Path) -> None:
    script = tmp_path / "readme.py"
    script.write_text("\n".join(re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)))
    done = subprocess.run([sys.executable, "-W", "error", script], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "match encoder_layer_0_attention_self_query" in done.stdout
    assert "fold_scale" in done.stdout
    assert (tmp_path / "work.json").exists()
