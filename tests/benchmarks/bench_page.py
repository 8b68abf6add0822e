"""How quick the page is: `python tests/benchmarks/bench_page.py`. Run by hand; needs /usr/bin/chromium.

Starts the app and drives a real Chromium. Prints medians, each beside a floor of the same machine and moment: the
same act on a page with nothing but a `st.toggle`.
"""

from __future__ import annotations

import argparse
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).parents[2]
CHROMIUM = "/usr/bin/chromium"
BARE = 'import streamlit as st\nst.write("it is on" if st.toggle("bare", key="bare") else "it is off")\n'
READY = "globalThis.__fxopt?.views?.length && __fxopt.views[0].ready"

# From the press of the button to the second frame after the condition holds: by then it has been painted.
WATCH = """(condition) => {
    const holds = new Function(`return ${condition}`);
    globalThis.took = null;
    addEventListener('pointerup', () => {
        const start = performance.now();
        const look = () => {
            if (!holds()) return requestAnimationFrame(look);
            requestAnimationFrame(() => requestAnimationFrame(() => { globalThis.took = performance.now() - start; }));
        };
        look();
    }, { once: true, capture: true });
}"""


@contextmanager
def served(script: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", str(script), f"--server.port={port}", "--server.headless=true"]
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def first_paint(browser: Browser, url: str, condition: str) -> float:
    """Milliseconds from asking for the page to what it is there for, in a fresh browser context."""
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    page = context.new_page()
    start = time.perf_counter()
    page.goto(url)
    page.wait_for_function(condition, timeout=120_000)
    seconds = time.perf_counter() - start
    context.close()
    return seconds * 1000


def toggle(page: Page, label: str, on: str, off: str, repeats: int) -> list[float]:
    """Milliseconds from a click on a switch to the painted effect, alternating on and off."""
    found = []
    for number in range(repeats):
        page.evaluate(WATCH, off if number % 2 else on)
        page.locator("label", has_text=label).first.click()
        page.wait_for_function("globalThis.took !== null", timeout=60_000)
        found.append(page.evaluate("globalThis.took"))
        page.wait_for_timeout(400)  # the run behind the picture ends before the next click
    return found


def told(what: str, milliseconds: list[float]) -> None:
    low, high = min(milliseconds), max(milliseconds)
    print(f"{what:52} median {statistics.median(milliseconds):7.0f} ms   [{low:.0f}, {high:.0f}]", flush=True)


def opened(browser: Browser, url: str, condition: str) -> Page:
    page = browser.new_context(viewport={"width": 1280, "height": 720}).new_page()
    page.goto(url)
    page.wait_for_function(condition, timeout=120_000)
    return page


def bench_bare(browser: Browser, script: Path, repeats: int) -> None:
    says = "document.querySelector('label') && document.body.textContent.includes('it is {}')".format
    with served(script) as url:
        first_paint(browser, url, says("off"))
        told("a bare st.toggle: first paint", [first_paint(browser, url, says("off")) for _ in range(repeats)])
        page = opened(browser, url, says("off"))
        told("a bare st.toggle: click to repaint", toggle(page, "bare", says("on"), says("off"), 2 * repeats))


def bench_page(browser: Browser, repeats: int) -> None:
    applied = "[...__fxopt.views[0].marks.values()].flat().some((mark) => mark[0] === 'applied')"
    switched = applied, f"!{applied}", 2 * repeats
    with served(ROOT / "app.py") as url:
        told("the page: first paint, cold (torch is loaded)", [first_paint(browser, url, READY)])
        told("the page: first paint, warm", [first_paint(browser, url, READY) for _ in range(repeats)])
        page = opened(browser, url, READY)
        told("digits: switch a pass, click to repaint", toggle(page, "FuseBatchNorm2dInConv2d", *switched))
        start = time.perf_counter()
        page.get_by_role("combobox", name="Model").click()
        page.get_by_role("option", name="BERT-base", exact=True).click()
        page.wait_for_function(f"{READY} && __fxopt.views[0].scene.find('@encoder.layer.0') >= 0", timeout=300_000)
        told("BERT-base: picked to painted, transformers loaded", [(time.perf_counter() - start) * 1000])
        page.wait_for_timeout(2000)
        told("BERT-base folded: switch a pass, click to repaint", toggle(page, "MergeLinears", *switched))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        bare = Path(folder) / "bare.py"
        bare.write_text(BARE)
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        bench_bare(browser, bare, repeats)
        bench_page(browser, repeats)
        browser.close()


if __name__ == "__main__":
    main()
