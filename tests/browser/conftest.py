"""A Streamlit server for each script, and a Chromium page that fails the test on faults no visitor may see."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect, sync_playwright

from tests.browser.chromium import CHROMIUM, CHROMIUM_OPTIONS
from tests.browser.graph import SCRIPT, Graph, OpenGraph
from tests.browser.serving import ROOT, answering, free_port, served
from tests.browser.visitor import APP, TOUR_ENDED, Open, Visitor

collect_ignore = [
    "explore_script.py",
    "graph_script.py",
    "held_script.py",
    "linked_script.py",
    "overtaken_script.py",
    "sides_script.py",
]  # pages and a script, which are run by tests

expect.set_options(timeout=30_000)  # as long as an act waits: these tests ask whether, and benchmarks how soon

STORED = "cookies,local_storage,indexeddb,service_workers,cache_storage"
"""All that a page may keep in its profile; the rest ends with the page."""


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


@pytest.fixture(scope="session")
def with_code(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a page on which rules may be written and run."""
    folder = tmp_path_factory.mktemp("server with code")
    port = free_port()
    command = [sys.executable, "-m", "fxopt", "app", "--allow-code", "--headless", f"--port={port}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    with answering(command, port, folder / "log.txt", folder, environment):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="session")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """The one profile in which all pages are opened: it fetches and reads their code once."""
    context = browser.new_context(viewport={"width": 1400, "height": 900}, reduced_motion="reduce")
    context.add_init_script(TOUR_ENDED)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page of 1400 x 900; an error on its console, or a request to another host, fails the test.

    It finds nothing that another page has stored, and no other page is open beside it.
    """
    page = context.new_page()
    faults: list[str] = []
    origins: set[str] = set()

    def heard(message: ConsoleMessage) -> None:
        if message.type == "error":
            faults.append(f"console: {message.text}")

    def asked(request: Request) -> None:
        parts = urlsplit(request.url)
        origins.add(f"{parts.scheme}://{parts.netloc}")
        if parts.scheme not in ("data", "blob", "file") and parts.hostname not in ("127.0.0.1", "localhost"):
            faults.append(f"request to another host: {request.url}")

    page.on("console", heard)
    page.on("pageerror", lambda error: faults.append(f"uncaught: {error}"))
    page.on("request", asked)
    page.set_default_timeout(30_000)
    yield page
    _forget(context, origins)
    assert not faults, "\n".join(faults)


def _forget(context: BrowserContext, origins: Iterable[str]) -> None:
    """Close all pages, and let the profile forget what they have stored."""
    for page in context.pages:
        page.close()
    empty = context.new_page()
    session = context.new_cdp_session(empty)
    for origin in origins:
        session.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": STORED})
    empty.close()


@pytest.fixture
def visit(page: Page, serve: Callable[..., str]) -> Open:
    return lambda: Visitor(page, serve(APP))


@pytest.fixture
def open_graph(page: Page, serve: Callable[..., str]) -> OpenGraph:
    """Opens a graph of `graph_script.py` on a page of its own."""
    return lambda name: Graph(page, f"{serve(SCRIPT)}?graph={name}")
