"""How much each act sends to the browser: `python -m tests.benchmarks.bench_elements`. Needs /usr/bin/chromium.

The browser draws anew every element that a run sends, at about a millisecond an element. The counts are the same on any
machine, however busy it is; so are the bytes, apart from figures of time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import WebSocket, sync_playwright
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from tests.browser.chromium import CHROMIUM, CHROMIUM_OPTIONS
from tests.browser.serving import served
from tests.browser.visitor import APP, FOLD, TOUR_ENDED, Visitor

QUIET_MS = 1500
"""After which an act is taken to have sent all that it sends."""


@dataclass
class Sent:
    """What came from the server since the last act: runs of the script, elements, containers, bytes."""

    runs: int = 0
    elements: int = 0
    containers: int = 0
    kilobytes: float = 0.0

    def take(self, frame: bytes) -> None:
        message = ForwardMsg()
        message.ParseFromString(frame)
        self.kilobytes += len(frame) / 1000
        self.runs += message.WhichOneof("type") == "new_session"
        if message.WhichOneof("type") == "delta":
            self.elements += message.delta.WhichOneof("type") == "new_element"
            self.containers += message.delta.WhichOneof("type") == "add_block"


def main() -> None:
    sent: list[bytes] = []

    def connected(socket: WebSocket) -> None:
        socket.on("framereceived", lambda frame: sent.append(frame if isinstance(frame, bytes) else b""))

    with tempfile.TemporaryDirectory() as logs, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_OPTIONS)
        with served(APP, log=Path(logs) / "log.txt") as url:
            page = browser.new_context(viewport={"width": 1280, "height": 720}, reduced_motion="reduce").new_page()
            page.add_init_script(TOUR_ENDED)
            page.on("websocket", connected)
            print(f"{'act':44}{'runs':>6}{'elements':>10}{'containers':>12}{'kB':>9}")

            def count(act: str, done: Callable[[], object] = lambda: None) -> None:
                sent.clear()
                done()
                page.wait_for_function("!document.querySelector('[data-stale=true]')")
                page.wait_for_timeout(QUIET_MS)
                total = Sent()
                for frame in list(sent):
                    total.take(frame)
                print(
                    f"{act:44}{total.runs:6}{total.elements:10}{total.containers:12}{total.kilobytes:9.1f}", flush=True
                )

            visitor: Visitor | None = None

            def opened() -> None:
                nonlocal visitor
                visitor = Visitor(page, url)

            count("the page opens", opened)
            assert visitor is not None, "the page is open"
            at = visitor

            def switched(told: str) -> Callable[[], None]:
                def act() -> None:
                    at.switch(FOLD)
                    at.sees_badge(told)

                return act

            page.mouse.move(700, 5)
            count("a pass is switched on", lambda: (switched("4 sites on")(), page.mouse.move(700, 5)))
            count("it is switched off", lambda: (switched("restored, bit for bit")(), page.mouse.move(700, 5)))
            count("a row is pointed at", lambda: page.locator(".st-key-pass-D-row").hover())
            page.mouse.move(700, 5)
            page.wait_for_timeout(QUIET_MS)
            count("a node is selected", lambda: (at.click_node("stem_norm"), at.sees("What the passes say")))
            count("another node is selected", lambda: at.click_node("stem_conv"))
            count("the next pass is looked at (key)", lambda: page.keyboard.press("Escape") or page.keyboard.press("f"))
            count("another graph is shown", lambda: page.get_by_role("radio", name="Original").click())
            page.get_by_role("radio", name="Now").click()
            page.wait_for_timeout(QUIET_MS)
            count("the tab Code is opened", lambda: page.get_by_role("tab", name="Code").click())

            def picked() -> None:
                at.pick("BERT-base")
                at.wait("view.subject === 'bert-base'")

            count("BERT-base is picked, and captured", picked)
            count("a module is unfolded", lambda: page.evaluate("__fxopt.views[0].toggle('encoder.layer.0')"))
            count("MergeLinears is switched on", lambda: (at.switch("MergeLinears"), at.sees_badge("12 sites on")))
        browser.close()


if __name__ == "__main__":
    main()
