"""A Streamlit server for as long as it is needed."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]
OPTIONS = (
    "--server.headless=true", "--client.toolbarMode=viewer", "--browser.gatherUsageStats=false",
    "--server.fileWatcherType=none", "--server.address=127.0.0.1",
)  # fmt: skip
START_SECONDS = 120


@contextmanager
def served(script: Path | str, *arguments: str, log: Path, options: Sequence[str] = OPTIONS) -> Iterator[str]:
    """The address of a server that runs `script`, once it answers. Its output goes into the file `log`."""
    port = free_port()
    command = [sys.executable, "-m", "streamlit", "run", str(script), f"--server.port={port}", *options]
    if arguments:
        command += ["--", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    with answering(command, port, log, ROOT, environment):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def served_to_others(*, log: Path) -> Iterator[str]:
    """The address of a server as a class has it, by the command `fxopt`, once it answers."""
    port = free_port()
    command = [sys.executable, "-m", "fxopt", "app", "--headless", "--serve", "0.0.0.0", f"--port={port}"]
    with answering(command, port, log, ROOT, {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def answering(
    command: Sequence[str], port: int, log: Path, folder: Path, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """The process of a server that `command` starts in a folder, once it answers at the port."""
    with log.open("wb") as output:
        server = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        _wait_for(server, port, log)
        yield server
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:  # it would outlive this test, and be told of in another one
            server.kill()
            server.wait()
            raise


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _wait_for(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    for _ in range(START_SECONDS * 4):
        if _answers(port):
            return
        with suppress(subprocess.TimeoutExpired):
            server.wait(0.25)
            raise RuntimeError(f"the server ended with code {server.returncode}: {log.read_text()[-2000:]}")
    raise RuntimeError(f"no server at port {port} after {START_SECONDS} s: {log.read_text()[-2000:]}")


def _answers(port: int) -> bool:
    """Return whether the server is ready: it listens before it has imported the page."""
    caller = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        caller.request("GET", "/_stcore/health")
        return caller.getresponse().status == 200
    except OSError:
        return False
    finally:
        caller.close()
