"""How quick the page is: `python -m tests.benchmarks.bench_page`. Run by hand; needs /usr/bin/chromium.

Starts the app and drives a real Chromium. Prints one table: medians with intervals, each beside its target, and those
of the page beside a floor of the same machine and moment, the same act on a page with nothing but a `st.toggle`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from playwright.sync_api import Browser, Page, WebSocket, sync_playwright

from tests.benchmarks.bench_pan import layouts_and_frames
from tests.benchmarks.figures import Figure, told
from tests.browser.serving import ROOT, served
from tests.browser.visitor import TOUR_ENDED, switch_of

CHROMIUM = "/usr/bin/chromium"
BARE = 'import streamlit as st\nst.write("it is on" if st.toggle("bare", key="bare") else "it is off")\n'
READY = "globalThis.__fxopt?.views?.length && __fxopt.views[0].ready"
BERT = f"{READY} && __fxopt.views[0].scene.find('@encoder.layer.0') >= 0"

# From the visitor's act to the second frame after the condition holds: by then it has been painted.
WATCH = """([event, condition]) => {
    const holds = new Function(`return ${condition}`);
    globalThis.took = null;
    addEventListener(event, () => {
        const start = performance.now();
        const look = () => {
            if (!holds()) return requestAnimationFrame(look);
            requestAnimationFrame(() => requestAnimationFrame(() => { globalThis.took = performance.now() - start; }));
        };
        look();
    }, { once: true, capture: true });
}"""


def first_paint(browser: Browser, url: str, condition: str) -> float:
    """Milliseconds from asking for the page to its graph, in a fresh browser context."""
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    page = context.new_page()
    start = time.perf_counter()
    page.goto(url)
    page.wait_for_function(condition, timeout=120_000)
    seconds = time.perf_counter() - start
    context.close()
    return seconds * 1000


def took(page: Page, act: Callable[[], None], condition: str, event: str = "pointerup") -> float:
    """Milliseconds from an act to its painted effect."""
    page.evaluate(WATCH, [event, condition])
    act()
    page.wait_for_function("globalThis.took !== null", timeout=60_000)
    milliseconds: float = page.evaluate("globalThis.took")
    page.wait_for_timeout(600)  # the run behind the picture ends before the next act
    return milliseconds


def toggles(page: Page, label: str, on: str, off: str, repeats: int) -> list[float]:
    click = page.locator(label).first.click
    return [took(page, click, off if number % 2 else on) for number in range(repeats)]


def opened(browser: Browser, url: str, condition: str) -> Page:
    page = browser.new_context(viewport={"width": 1280, "height": 720}, reduced_motion="reduce").new_page()
    page.add_init_script(TOUR_ENDED)
    page.goto(url)
    page.wait_for_function(condition, timeout=120_000)
    return page


def bare(browser: Browser, url: str, repeats: int) -> tuple[list[float], list[float]]:
    """First paints and toggles of a page with nothing else."""
    says = "document.querySelector('label') && document.body.textContent.includes('it is {}')".format
    first_paint(browser, url, says("off"))
    paints = [first_paint(browser, url, says("off")) for _ in range(repeats)]
    page = opened(browser, url, says("off"))
    found = toggles(page, ".st-key-bare label", says("on"), says("off"), 2 * repeats)
    page.context.close()
    return paints, found


def pick_bert(page: Page) -> float:
    start = time.perf_counter()
    page.get_by_role("combobox", name="Model").click()
    page.get_by_role("option", name="BERT-base", exact=True).click()
    page.wait_for_function(BERT, timeout=300_000)
    milliseconds = (time.perf_counter() - start) * 1000
    page.wait_for_timeout(1500)
    return milliseconds


def bench_bert(browser: Browser, url: str, repeats: int) -> list[Figure]:
    """BERT-base, folded: the page's times, and the bytes that it sends."""
    sent: list[bytes] = []

    def connected(socket: WebSocket) -> None:
        socket.on("framereceived", lambda frame: sent.append(frame if isinstance(frame, bytes) else frame.encode()))

    def weighed() -> tuple[float, float]:
        """Kilobytes received since the last time: of the graph, and of the whole page."""
        of_graph = [frame for frame in sent if b"fxopt_graph" in frame or b"fxopt_layout" in frame]
        found = sum(map(len, of_graph)) / 1000, sum(map(len, sent)) / 1000
        sent.clear()
        return found

    page = browser.new_context(viewport={"width": 1280, "height": 720}, reduced_motion="reduce").new_page()
    page.add_init_script(TOUR_ENDED)
    page.on("websocket", connected)
    page.goto(url)
    page.wait_for_function(READY, timeout=120_000)
    page.wait_for_timeout(1000)
    weighed()
    pick_bert(page)
    first = weighed()

    seen = "document.querySelector('.st-key-inspected')?.textContent.includes('encoder.layer.{}')".format
    center = "(({x, y, width, height}) => [x + width / 2, y + height / 2])"

    def click(what: str) -> None:
        page.mouse.click(*page.evaluate(f"{center}(__fxopt.views[0].{what})"))

    clicks = [
        took(page, lambda at=number % 2: click(f"nodeRect('@encoder.layer.{at}')"), seen(number % 2))  # type: ignore[misc]
        for number in range(2 * repeats)
    ]
    applied = "[...__fxopt.views[0].marks.values()].flat().filter((mark) => mark[0] === 'applied').length"
    ready = "__fxopt.views[0].ready"
    switch = f"{switch_of('MergeLinears')} label"
    cached = toggles(page, switch, f"{applied} > 0 && {ready}", f"{applied} === 0 && {ready}", 2 * repeats + 2)
    says = "document.querySelector('.stMarkdownBadge').textContent.endsWith('{}')".format
    answered = toggles(page, switch, says("sites on"), says("restored, bit for bit"), 2 * repeats)

    # Each site that is switched on alone gives another picture: one that was never laid out.
    page.evaluate("document.activeElement?.blur()")
    new, weights = [], []
    for _ in range(max(repeats, 7)):
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(700)
        layout, marked = page.evaluate(f"[__fxopt.views[0].layoutId, {applied}]")  # the step has opened its module
        weighed()
        condition = f"{applied} > {marked} && {ready} && __fxopt.views[0].layoutId !== '{layout}'"
        # Not keydown: the page keeps that to itself.
        new.append(took(page, lambda: page.keyboard.press("Enter"), condition, "keyup"))
        weights.append(weighed())

    # The steps have opened layers.
    page.get_by_role("button", name="Overview", exact=True).first.click()
    page.wait_for_function(f"{ready} && __fxopt.views[0].scene.index.has('@encoder.layer.0')")
    page.wait_for_timeout(500)
    unfolds = []
    for number in range(max(repeats, 7)):
        page.evaluate(f"(view => view.view.reveal(view.scene.find('@encoder.layer.{number}')))(__fxopt.views[0])")
        page.wait_for_timeout(300)
        is_open = f"{ready} && !__fxopt.views[0].scene.index.has('@encoder.layer.{number}')"
        unfold = lambda at=number: click(f"controlRect('encoder.layer.{at}')")  # noqa: E731
        unfolds.append(took(page, unfold, is_open))
        click(f"controlRect('encoder.layer.{number}')")
        page.wait_for_function(f"{ready} && __fxopt.views[0].scene.index.has('@encoder.layer.{number}')")
        page.wait_for_timeout(500)
    page.context.close()
    return [
        Figure("BERT-base folded: click to inspector", clicks, most=80),
        Figure("BERT-base folded: toggle, cached structure", cached[2:], most=80),
        Figure("BERT-base folded: toggle, cached structure, until the list says so as well", answered),
        Figure("BERT-base folded: toggle of one site, new layout", new, most=400),
        Figure("BERT-base: unfold a layer, new layout", unfolds, most=500),
        Figure("BERT-base opened: sent for the graph", [first[0]], "kB", most=60),
        Figure("BERT-base opened: sent in all", [first[1]], "kB"),
        Figure(
            "BERT-base folded, a toggle to a new layout: sent for the graph",
            [weight[0] for weight in weights],
            "kB",
            most=10,
        ),
        Figure("BERT-base folded, a toggle to a new layout: sent in all", [weight[1] for weight in weights], "kB"),
    ]


def bench(browser: Browser, folder: Path, repeats: int) -> list[Figure]:
    script = folder / "bare.py"
    script.write_text(BARE)
    # As a visitor's own server is started, which watches its files.
    logs, options = (folder / "bare.txt", folder / "app.txt"), ("--server.headless=true",)
    with (
        served(script, log=logs[0], options=options) as nothing,
        served(ROOT / "app.py", log=logs[1], options=options) as url,
    ):
        cold = first_paint(browser, url, READY)
        page = opened(browser, url, READY)
        pick_bert(page)  # so that transformers is loaded, and BERT captured
        page.context.close()
        paints, floors = bare(browser, nothing, repeats)
        warm = [first_paint(browser, url, READY) for _ in range(repeats)]
        listed = [first_paint(browser, url, f"{READY} && __fxopt.keys") for _ in range(repeats)]
        picks = []
        for _ in range(repeats):
            page = opened(browser, url, READY)
            picks.append(pick_bert(page))
            page.context.close()
        of_bert = bench_bert(browser, url, repeats)
        later_paints, later_floors = bare(browser, nothing, repeats)  # the machine may have become slower meanwhile
    paint = Figure("a bare st.toggle: first paint", paints + later_paints)
    floor = Figure("a bare st.toggle: click to repaint", floors + later_floors)

    def above(figure: Figure, of: Figure) -> Figure:
        return replace(figure, floor=of.middle, most=of.middle + (figure.most or 0))

    return [
        paint,
        floor,
        Figure("the page: first paint, cold (torch is loaded)", [cold]),
        above(Figure("the page: first paint, warm", warm, most=600), paint),
        Figure("the page: first paint of all the rest, warm", listed),
        above(Figure("BERT-base folded: picked to painted, warm", picks, most=600), paint),
        *(above(one, floor) for one in of_bert[:2]),
        of_bert[2],
        above(of_bert[3], floor),
        *of_bert[4:],
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--part", choices=("page", "layout"), help="one half of the table alone")
    arguments = parser.parse_args()
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        if arguments.part != "layout":
            figures += bench(browser, Path(folder), arguments.repeats)
        if arguments.part != "page":
            figures += layouts_and_frames(browser, Path(folder), arguments.repeats)
        browser.close()
    print(told(figures))


if __name__ == "__main__":
    main()
