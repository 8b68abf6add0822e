"""How smoothly a large graph pans and zooms: `python -m tests.benchmarks.bench_pan`. By hand; needs /usr/bin/chromium.

Draws the stand-alone page, so no server has a part in it, in a headless Chromium without a GPU. A step is a move of the
pointer or a turn of the wheel, each followed by the frame that it asks for; frames a second are those steps over the
time they took, so nothing is counted that was not drawn. Also prints the cost and size of layouts. `bench_page` has the
part of it that there are targets for in its table.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from fxopt.ui.standalone import standalone_html
from fxopt.view import GraphView, Layout, layout, pack, visible
from fxopt.view.parts import with_parts
from tests.benchmarks.figures import Figure
from tests.view import graphs

CHROMIUM = "/usr/bin/chromium"

STEP = """async ([kind, zoom, steps]) => {
    const pane = __fxopt.views[0];
    const [width, height] = pane.stageSize();
    pane.camera.fit(pane.scene, width, height);
    if (zoom) pane.camera.zoomBy(zoom / pane.camera.zoom, [width / 2, height / 2]);
    pane.draw();
    const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    await frame();
    const start = performance.now();
    for (let step = 0; step < steps; step++) {
        if (kind === "pan") {
            pane.camera.x += 3 * Math.sin(step / 5);
            pane.camera.y -= 12;
            pane.draw();
        } else pane.view.zoom(step < steps / 2 ? 1.08 : 1 / 1.08, [width / 2, height / 2]);
        await frame();
    }
    const context = pane.context;
    context.getImageData(0, 0, 1, 1); // waits until all that was asked for is drawn
    return (1000 * steps) / (performance.now() - start);
}"""


def parted(view: GraphView) -> GraphView:
    """`view` as it comes of a graph: a module with too many children is cut into parts."""
    return GraphView(tuple(with_parts(view.nodes)), view.edges)


def chain(count: int) -> GraphView:
    names = [f"n{number}" for number in range(count)]
    return GraphView(tuple(map(graphs.call, names)), tuple(pairwise(names)))


def made(name: str, view: GraphView) -> Layout:
    shown = visible(view, view.module_classes)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start, wall = time.process_time(), time.perf_counter()
    picture = layout(shown)
    python, wall = time.process_time() - start, time.perf_counter() - wall
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    engine = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    start = time.process_time()
    data = pack(picture)
    packing = time.process_time() - start
    print(
        f"{name:28} {len(shown.items):6,} boxes: {wall:5.2f} s wall; CPU: engine {engine:5.2f} s, "
        f"Python {python:5.2f} s, packing {packing:5.2f} s; {len(data) / 1000:6.1f} kB {picture.note}",
        flush=True,
    )
    return picture


def drawn(browser: Browser, folder: Path, name: str, picture: Layout) -> Page:
    """The stand-alone page of a picture."""
    file = folder / "graph.html"
    file.write_text(standalone_html(picture, title=name), encoding="utf-8")
    page = browser.new_context(viewport={"width": 1280, "height": 720}, reduced_motion="reduce").new_page()
    page.goto(file.as_uri())
    page.locator(".fx-caption").wait_for(timeout=120_000)
    page.wait_for_timeout(1500)
    return page


def frames(browser: Browser, folder: Path, name: str, picture: Layout, steps: int) -> None:
    page = drawn(browser, folder, name, picture)
    for kind in ("pan", "zoom"):
        for zoom, told in ((0, "all in view"), (0.15, "far"), (0.3, "middle"), (1, "near")):
            rate = page.evaluate(STEP, [kind, zoom, steps])
            print(f"{name:28} {kind:5} {told:12} {rate:6.1f} frames a second", flush=True)
    page.context.close()


def layouts_and_frames(browser: Browser, folder: Path, repeats: int, steps: int = 30) -> list[Figure]:
    """The figures that have targets: layouts made anew, in seconds, and the frames a second that 8,000 boxes allow."""
    found = []
    for count, layers, most in ((465, 18, 0.25), (3500, 130, 1.5), (8000, 300, 5.0)):
        view = graphs.encoder(layers)
        shown = visible(view, view.module_classes)
        seconds = []
        for _ in range(repeats):
            start = time.perf_counter()
            picture = layout(shown)
            seconds.append(time.perf_counter() - start)
        name = f"layout anew, {len(shown.items):,} boxes (for {count:,}), {picture.engine}"
        found.append(Figure(name, seconds, "s", most=most))
    page = drawn(browser, folder, "8,000", picture)
    for kind in ("pan", "zoom"):
        for zoom, told in ((0, "all in view"), (0.15, "far"), (0.3, "middle"), (1, "near")):
            rates = [page.evaluate(STEP, [kind, zoom, steps]) for _ in range(repeats)]
            name = f"{kind} at {len(picture.boxes):,} boxes, {told}"
            found.append(Figure(name, rates, "frames/s", least=30))
    page.context.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=60)
    steps = parser.parse_args().steps
    views: Mapping[str, GraphView] = {
        "BERT of 18 layers": graphs.encoder(18),
        "BERT of 130 layers": graphs.encoder(130),
        "BERT of 300 layers": graphs.encoder(300),
        "3,500 without modules": parted(graphs.flat(3500)),
        "8,000 without modules": parted(graphs.flat(8000)),
        "a chain of 20,000": parted(chain(20_000)),
    }
    pictures = {name: made(name, view) for name, view in views.items()}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        for name in ("BERT of 300 layers", "8,000 without modules", "a chain of 20,000"):
            frames(browser, Path(folder), name, pictures[name], steps)
        browser.close()


if __name__ == "__main__":
    main()
