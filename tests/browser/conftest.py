"""A Streamlit server for each script, and a Chromium page that fails the test on what a visitor must never see."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

collect_ignore = [
    "graph_script.py",
    "linked_script.py",
    "sides_script.py",
]  # pages, which read their arguments when run

ROOT = Path(__file__).parents[2]
CHROMIUM = "/usr/bin/chromium"
CHROMIUM_OPTIONS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
SERVER_OPTIONS = [
    "--server.headless=true", "--client.toolbarMode=viewer", "--browser.gatherUsageStats=false",
    "--server.fileWatcherType=none", "--server.address=127.0.0.1",
]  # fmt: skip
START_SECONDS = 60


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _start(script: Path, arguments: tuple[str, ...], log: Path) -> tuple[subprocess.Popen[bytes], str]:
    port = _free_port()
    command = [sys.executable, "-m", "streamlit", "run", str(script), f"--server.port={port}", *SERVER_OPTIONS]
    if arguments:
        command += ["--", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    with log.open("wb") as output:
        server = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)
    return server, f"http://127.0.0.1:{port}"


def _answers(url: str) -> bool:
    parts = urlsplit(url)
    try:
        with socket.create_connection((parts.hostname, parts.port), timeout=1):
            return True
    except OSError:
        return False


@pytest.fixture(scope="session")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """``serve(script, *arguments) -> url``: one server for each script and arguments, for the whole run."""
    urls: dict[tuple[str, ...], str] = {}
    with ExitStack() as running:

        def of(script: Path | str, *arguments: str) -> str:
            key = (str(script), *arguments)
            if key not in urls:
                log = tmp_path_factory.mktemp("server") / "log.txt"
                server, url = _start(Path(script), arguments, log)
                running.callback(server.wait, 20)
                running.callback(server.terminate)
                _wait_for(server, url, log)
                urls[key] = url
            return urls[key]

        yield of


def _wait_for(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    for _ in range(START_SECONDS * 4):
        if server.poll() is not None:
            raise RuntimeError(f"the server ended with code {server.returncode}: {log.read_text()[-2000:]}")
        if _answers(url):
            return
        try:
            server.wait(0.25)
        except subprocess.TimeoutExpired:
            continue
    raise RuntimeError(f"no server at {url} after {START_SECONDS} s: {log.read_text()[-2000:]}")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_OPTIONS)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page of 1400 x 900; an error on its console, or a request to another host, fails the test."""
    context = browser.new_context(viewport={"width": 1400, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    faults: list[str] = []

    def heard(message: ConsoleMessage) -> None:
        if message.type == "error":
            faults.append(f"console: {message.text}")

    def asked(request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob", "file") and parts.hostname not in ("127.0.0.1", "localhost"):
            faults.append(f"request to another host: {request.url}")

    page.on("console", heard)
    page.on("pageerror", lambda error: faults.append(f"uncaught: {error}"))
    page.on("request", asked)
    page.set_default_timeout(30_000)
    yield page
    context.close()
    assert not faults, "\n".join(faults)
