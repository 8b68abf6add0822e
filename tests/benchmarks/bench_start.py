"""How soon a server that has just been started shows a graph: `python -m tests.benchmarks.bench_start`. Run by hand.

Each round starts `fxopt app` and goes to the page as soon as it answers, in a Chromium that is open already. Captures
are kept in a folder of the benchmark's own, which the first round fills; it is left out of the figures.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.benchmarks.bench_page import BERT, CHROMIUM, READY
from tests.benchmarks.figures import Figure, told
from tests.browser.serving import ROOT, answering, free_port
from tests.browser.visitor import TOUR_ENDED

CURTAIN = "document.querySelector('.curtain img')?.complete"


class Start:
    """One server from its start, and a browser that goes to it; `seconds` are counted from the start."""

    def __init__(self) -> None:
        self.begun = time.perf_counter()
        self.seconds: dict[str, float] = {}

    def note(self, name: str) -> None:
        self.seconds[name] = time.perf_counter() - self.begun


def start(browser: Browser, folder: Path, is_bert: bool) -> dict[str, float]:
    port = free_port()
    command = [sys.executable, "-m", "fxopt_cli", "app", "--headless", f"--port={port}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "FXOPT_CACHE": str(folder)}
    environment.setdefault("FXOPT_AHEAD", "0")
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its code compiled
    found = Start()
    with answering(command, port, folder / "log.txt", ROOT, environment):
        found.note("answers")
        page = browser.new_context(viewport={"width": 1280, "height": 720}, reduced_motion="reduce").new_page()
        page.add_init_script(TOUR_ENDED)
        page.goto(f"http://127.0.0.1:{port}")
        page.wait_for_function(f"{CURTAIN} || {READY}", timeout=120_000)
        found.note("picture")
        page.wait_for_function(READY, timeout=120_000)
        found.note("graph")
        page.wait_for_function("__fxopt.keys", timeout=120_000)
        found.note("all")
        if is_bert:
            page.wait_for_timeout(500)
            begun = time.perf_counter()
            page.get_by_role("combobox", name="Model").click()
            page.get_by_role("option", name="BERT-base", exact=True).click()
            page.wait_for_function(BERT, timeout=300_000)
            found.seconds["bert"] = time.perf_counter() - begun
        page.context.close()
    return found.seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        start(browser, Path(folder), is_bert=True)
        rounds = [start(browser, Path(folder), is_bert=True) for _ in range(repeats)]
        browser.close()

    def figure(name: str, key: str, most: float | None = None) -> Figure:
        return Figure(name, [one[key] for one in rounds], "s", most=most)

    print(
        told(
            [
                figure("a server that was just started: it answers", "answers"),
                figure("the picture of the first graph", "picture", most=3),
                figure("the first graph", "graph", most=3),
                figure("the whole page", "all"),
                figure("BERT-base, picked in the second after it", "bert", most=2),
            ]
        )
    )


if __name__ == "__main__":
    main()
