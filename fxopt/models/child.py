"""A dry run in a process of its own, limited in memory and time, for folders of extraordinary sizes."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fxopt.errors import ModelError
from fxopt.models.dry_run import Fit
from fxopt.process.child_limits import die_with, limit
from fxopt.process.memory import in_words
from fxopt.process.news import tell

MOST_SECONDS = 60
"""Of a processor; importing transformers takes four. On a busy machine that may take ten times as long."""
MOST_BYTES = 4 * 10**9
"""Of address space: torch and transformers take some of it themselves."""
_PROGRAM = "import sys; from fxopt.models.child import main; main(*sys.argv[1:])"
_MOST_ANSWER = 64 * 2**20
_SECONDS_BETWEEN_LOOKS = 0.1


def fit_in_child(folder: Path) -> Fit:
    """Return `LocalFolder(folder).fit()`, made in a child process that ends with this call in any case.

    Raises:
        ModelError: the child raised it, or took more than it may.
        CancelledError: the listener to the news asked for the end.
    """
    roots = os.pathsep.join(filter(None, (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", ""))))
    command = [sys.executable, "-c", _PROGRAM, str(folder.absolute()), str(os.getpid())]
    with tempfile.TemporaryFile() as answer:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=answer,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": roots},
        )
        try:
            _wait(child)
        except subprocess.TimeoutExpired:
            text = f"{folder}: it takes more than {MOST_SECONDS} s to build, even without weights"
            raise ModelError(text) from None
        finally:
            child.kill()
            child.wait()
        answer.seek(0)
        return _answer_of(folder, answer.read(), child.returncode)


def _wait(child: subprocess.Popen[bytes]) -> None:
    began = time.monotonic()
    while child.poll() is None:
        tell("measuring it beside the page")
        if time.monotonic() - began > 10 * MOST_SECONDS:
            raise subprocess.TimeoutExpired(child.args, 10 * MOST_SECONDS)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_SECONDS_BETWEEN_LOOKS)


def _answer_of(folder: Path, text: bytes, code: int) -> Fit:
    try:
        answer: dict[str, Any] = json.loads(text)
    except ValueError:
        limits = f"{in_words(MOST_BYTES)} of memory or {MOST_SECONDS} s"
        raise ModelError(
            f"{folder}: a model cannot be built from its config.json within {limits} (exit code {code})"
        ) from None
    if "error" in answer:
        raise ModelError(answer["error"])
    return Fit.from_plain(answer)


def main(folder: str, parent: str) -> None:
    """Print the answer as JSON."""
    die_with(int(parent))
    limit(memory=MOST_BYTES, seconds=MOST_SECONDS, file=_MOST_ANSWER)
    from fxopt.models.local_folder import LocalFolder

    with os.fdopen(os.dup(1), "w") as out:
        os.dup2(2, 1)  # libraries print
        try:
            answer = asdict(LocalFolder(Path(folder)).fit())
        except ModelError as error:
            answer = {"error": str(error)}
        except MemoryError:
            answer = {"error": f"{folder}: a model built from its config.json takes more than {in_words(MOST_BYTES)}"}
        json.dump(answer, out)
