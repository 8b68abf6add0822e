"""A Streamlit server for each script, and a Chromium page that fails the test on what a visitor must never see."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

from tests.browser.serving import served
from tests.browser.visitor import APP, Open, Visitor

collect_ignore = [
    "graph_script.py",
    "linked_script.py",
    "sides_script.py",
]  # pages, which read their arguments when run

CHROMIUM = "/usr/bin/chromium"
CHROMIUM_OPTIONS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="session")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """``serve(script, *arguments) -> url``: one server for each script and arguments, for the whole run."""
    urls: dict[tuple[str, ...], str] = {}
    with ExitStack() as running:

        def of(script: Path | str, *arguments: str) -> str:
            key = (str(script), *arguments)
            if key not in urls:
                log = tmp_path_factory.mktemp("server") / "log.txt"
                urls[key] = running.enter_context(served(script, *arguments, log=log))
            return urls[key]

        yield of


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


@pytest.fixture
def visit(page: Page, serve: Callable[..., str]) -> Open:
    return lambda: Visitor(page, serve(APP))
